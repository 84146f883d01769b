/**
 * MySQL and MariaDB behind a SQL proxy that does not pass a generated key on as the server gave it.
 *
 * @module
 */

import { assertEquals, assertGreater, assertRejects } from "@std/assert";
import mysql from "mysql2/promise";
import { openStore } from "../../dialects/mysql/mod.ts";
import { type Range, ReserveConflictError } from "../../mod.ts";
import { askedServers } from "../servers/asked.ts";
import { type AlterKey, type MysqlProxy, startMysqlProxy } from "../servers/mysql_proxy.ts";
import { assertContiguous, assertDisjoint, tablesBeside, uniqueName } from "./ranges.ts";

type Store = Awaited<ReturnType<typeof openStore>>;

interface Fixture {
  readonly proxy: MysqlProxy;
  readonly rangeTable: string;
  /** Opens a store through the proxy. */
  open(fetchPlan: "statement" | "transaction"): Promise<Store>;
  /** Opens a store past it. */
  direct(): Promise<Store>;
}

function testEach(rule: string, body: (fixture: Fixture) => Promise<void>): void {
  for (const { name, url } of askedServers().filter(({ url }) => /^(mysql|mariadb):/.test(url))) {
    Deno.test(`${name} › behind a proxy, ${rule}`, async () => {
      await using proxy = await startMysqlProxy(url);
      const rangeTable = uniqueName("t");
      const tables = tablesBeside(rangeTable);
      const through = mysql.createPool({ uri: asMysql(proxy.url), connectionLimit: 4 });
      const past = mysql.createPool({ uri: asMysql(url), connectionLimit: 4 });
      try {
        await body({
          proxy,
          rangeTable,
          open: (fetchPlan) =>
            openStore(through, { ...tables, initSchema: true, fetchPlan, prepare: false }),
          direct: () => openStore(past, { ...tables, initSchema: true }),
        });
      } finally {
        await past.query(`drop table if exists ${Object.values(tables).join(", ")}`);
        await past.end();
        await through.end();
      }
    });
  }
}

function asMysql(url: string): string {
  return url.replace(/^mariadb:/, "mysql:");
}

/** Gives the key that an earlier statement generated, of whatever connection. */
function earlier(): AlterKey {
  let last = "0";
  return (key) => {
    const given = last;
    if (key !== "0") last = key;
    return given;
  };
}

const faults: readonly { readonly name: string; readonly alter: () => AlterKey }[] = [
  { name: "that loses the generated key", alter: () => () => 0 },
  { name: "that gives the key of an earlier statement", alter: earlier },
  { name: "that gives a key of its own", alter: () => () => 1_000 },
];

testEach("one that passes everything on, both plans reserve", async ({ open, proxy }) => {
  const ranges: Range[] = [];
  for (const fetchPlan of ["statement", "transaction", "statement"] as const) {
    const store = await open(fetchPlan);
    ranges.push(await store.ranges.reserve("order", 10), await store.ranges.reserve("order", 5));
  }
  assertContiguous(ranges, 1n);
  assertGreater(proxy.statements.length, 0);
});

for (const { name, alter } of faults) {
  testEach(`one ${name}, the plan statement refuses`, async ({ open, proxy, direct }) => {
    const store = await open("statement");
    const past = await direct();
    const given = [
      await store.ranges.reserve("order", 10),
      await store.ranges.reserve("invoice", 10),
      await past.ranges.reserve("order", 10),
      await store.ranges.reserve("order", 10),
    ];
    proxy.alter = alter();
    for (let count = 0; count < 3; count++) {
      await assertRejects(() => store.ranges.reserve("order", 10), ReserveConflictError);
    }
    proxy.alter = (key) => key;
    const after = await store.ranges.reserve("order", 10);
    assertDisjoint([...given.filter((_, index) => index !== 1), after]);
    assertEquals(after.start, 61n, "what was refused is a gap");
  });

  testEach(`one ${name}, the plan transaction reserves`, async ({ open, proxy, direct }) => {
    const store = await open("transaction");
    proxy.alter = alter();
    const past = await direct();
    const ranges = [
      await store.ranges.reserve("order", 10),
      await past.ranges.reserve("order", 10),
      ...await Promise.all(
        Array.from({ length: 12 }, (_, index) => store.ranges.reserve("order", 1 + index)),
      ),
      await past.ranges.reserve("order", 10),
    ];
    assertContiguous(ranges, 1n);
    await store.ranges.seal("order");
    assertEquals((await past.ranges.read("order"))?.sealed, true);
  });
}
