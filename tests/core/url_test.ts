import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { openStore as openH2 } from "../../dialects/h2/mod.ts";
import { openStore as openMysql } from "../../dialects/mysql/mod.ts";
import { openStore as openPostgresql } from "../../dialects/postgresql/mod.ts";
import { openStore as openSqlite } from "../../dialects/sqlite/mod.ts";
import { InvalidArgumentError, openStore } from "../../mod.ts";
import { allWords } from "../words.ts";

const password = "s3cr3t";

Deno.test("a URL whose scheme is not known is refused with the schemes that are", async () => {
  for (
    const [url, received] of [
      ["oracle://host/db", "oracle:…"],
      ["http://host/db", "http:…"],
      ["file:test.db", "file:…"],
      ["test.db", "no scheme"],
      ["", "no scheme"],
      ["://host", "no scheme"],
      ["/var/lib/test.db", "no scheme"],
    ] as const
  ) {
    const { message } = await assertRejects(() => openStore(url), InvalidArgumentError);
    assert(message.endsWith(`received "${received}"`), message);
    for (const scheme of ["postgres:", "postgresql:", "pglite:", "mysql:", "mariadb:", "sqlite:"]) {
      assertStringIncludes(message, scheme);
    }
  }
});

Deno.test("what is neither a URL nor a client is refused", async () => {
  for (const target of [null, undefined, 5, true, {}, [], () => {}, new URL("sqlite::memory:")]) {
    const call = openStore as (target: unknown) => Promise<unknown>;
    await assertRejects(() => call(target), InvalidArgumentError, "a URL or a Client");
  }
});

const urls = [
  `postgres://u:${password}@host:notaport/db`,
  `postgresql://u:${password}@host:99999999/db`,
  `postgres://u:${password}%@host/db`,
  `postgres://u:${password}@[::1/db`,
  `postgres://u:${password}@`,
  `postgres:u:${password}@host`,
  `postgres://u:${password}@127.0.0.1:1/db`,
  `mysql://u:${password}@127.0.0.1:1/d`,
  `mysql://u:${password}@host:notaport/d`,
  `mysql://u:${password}%@127.0.0.1:1/d`,
  `mariadb://u:${password}@[::1/d`,
  `mariadb:u:${password}@`,
  `POSTGRES://u:${password}@h/d`,
  `postgres//u:${password}@h/d`,
  `u:${password}@h/d`,
  `sqlserver://u:${password}@h/d`,
  `h2://u:${password}@h`,
  `h2://u:${password}%@h/d`,
  `h2://u:${password}@h:notaport/d`,
  `h2://u:${password}@127.0.0.1:1/d`,
];

for (const url of urls) {
  Deno.test(`no part of the password of ${url} is in an error`, async () => {
    for (const open of [openStore, openH2, openMysql, openPostgresql]) {
      const error = await assertRejects(() => open(url, { timeoutMs: 2_000 }), Error);
      assert(!allWords(error).includes(password), `it is in ${error.message}`);
    }
  });
}

Deno.test("no part of a password is in an error of the entry of SQLite", async () => {
  for (const url of urls) {
    const error = await assertRejects(() => openSqlite(url), InvalidArgumentError);
    assert(!allWords(error).includes(password), `it is in ${error.message}`);
  }
});

Deno.test("a password that is an option is in no error", async () => {
  for (
    const options of [
      { password },
      { password, username: "u", timeoutMs: 2_000 },
      { password, unknown: 1 },
      { password, username: 5 as never },
    ]
  ) {
    for (const url of ["postgres://127.0.0.1:1/db", "sqlite::memory:", "mysql://h/d"]) {
      const error = await assertRejects(() => openStore(url, options), Error);
      assert(!allWords(error).includes(password), `it is in ${error.message}`);
    }
  }
});

Deno.test("options that go with a URL are refused with a driver's object", async () => {
  const driver = Object.assign(() => {}, { unsafe() {}, typed() {} });
  for (const option of ["username", "password"]) {
    const call = openPostgresql as (target: unknown, options: unknown) => Promise<unknown>;
    const error = await assertRejects(() => call(driver, { [option]: password }), Error, option);
    assert(!allWords(error).includes(password));
  }
});

Deno.test("options are checked before anything is opened", async () => {
  for (const url of ["postgres://127.0.0.1:1/db", "sqlite:/no/such/folder/test.db"]) {
    for (const options of [{ timeoutMs: 0 }, { rangeTable: "a b" }, { unknown: 1 }, null]) {
      const call = openStore as (target: string, options: unknown) => Promise<unknown>;
      await assertRejects(() => call(url, options), InvalidArgumentError, "Cannot ");
    }
  }
});

Deno.test("an SQLite URL needs a path", async () => {
  for (const url of ["sqlite:", "sqlite://"]) {
    await assertRejects(() => openStore(url), InvalidArgumentError, "sqlite:path");
  }
  const store = await openStore("sqlite::memory:", { initSchema: true });
  assertEquals(store.dialect, "sqlite");
  assertEquals(await store.ranges.reserve("order", 2), { start: 1n, end: 3n });
  await store.close();
});
