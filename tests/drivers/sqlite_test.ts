import {
  assert,
  assertEquals,
  assertGreaterOrEqual,
  assertInstanceOf,
  assertNotEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { NodeSqliteClient, openStore, sqliteDialect } from "../../dialects/sqlite/mod.ts";
import {
  ConfigurationError,
  Deadline,
  Identifier,
  InTransactionError,
  RangeSealedError,
  sql,
  StoreClosedError,
  StoreError,
  systemRuntime,
  TimeoutError,
} from "../../mod.ts";
import { HandRuntime, settle } from "../core/hand_runtime.ts";
import { askedServers } from "../servers/asked.ts";
import { removeFolder, temporaryFolder } from "../servers/temporary.ts";
import {
  assertContiguous,
  assertDisjoint,
  type OwnTables,
  settles,
  sorted,
  tablesBeside,
  uniqueName,
} from "./ranges.ts";
import { assertExactSlots } from "./stores.ts";

interface Fixture extends AsyncDisposable {
  readonly file: string;
  readonly url: string;
  readonly table: string;
  readonly options: OwnTables & { initSchema: true };
  /** Opens another connection to the file; closed at the end. */
  connect(): DatabaseSync;
}

/** Later versions of the types know more options than earlier ones. */
type Options = ConstructorParameters<typeof DatabaseSync>[1] & {
  readBigInts?: boolean;
  returnArrays?: boolean;
};

async function openFixture(): Promise<Fixture> {
  const folder = await temporaryFolder("sqlite-test");
  const file = `${folder}/test.db`;
  const table = uniqueName("t");
  const opened: DatabaseSync[] = [];
  return {
    file,
    url: `sqlite:${file}`,
    table,
    options: { ...tablesBeside(table), initSchema: true },
    connect() {
      const database = new DatabaseSync(file);
      opened.push(database);
      return database;
    },
    async [Symbol.asyncDispose]() {
      for (const database of opened.filter(({ isOpen }) => isOpen)) database.close();
      await removeFolder(folder);
    },
  };
}

for (const { name } of askedServers().filter(({ name }) => name === "sqlite")) {
  const test = (rule: string, body: (fixture: Fixture) => Promise<void>) =>
    Deno.test(`${name} › ${rule}`, async () => {
      await using fixture = await openFixture();
      await body(fixture);
    });
  registerTests(test);
}

function registerTests(
  test: (rule: string, body: (fixture: Fixture) => Promise<void>) => void,
): void {
  const settings: Readonly<Record<string, Options>> = {
    "the defaults": {},
    "readBigInts": { readBigInts: true },
    "returnArrays": { returnArrays: true },
    "a busy timeout": { timeout: 1_000 },
    "double-quoted strings": { enableDoubleQuotedStringLiterals: true },
    "no foreign keys": { enableForeignKeyConstraints: false },
  };
  for (const [setting, options] of Object.entries(settings)) {
    test(`a connection with ${setting} reads and writes exactly`, async ({ table }) => {
      await assertExactOn(new DatabaseSync(":memory:", options), table);
    });
  }

  for (
    const pragma of [
      "encoding = 'UTF-16'",
      "empty_result_callbacks = 1",
      "reverse_unordered_selects = 1",
      "case_sensitive_like = 1",
      "foreign_keys = 1",
      "recursive_triggers = 1",
      "cell_size_check = 1",
      "auto_vacuum = 1",
      "locking_mode = exclusive",
    ]
  ) {
    test(`a connection with pragma ${pragma} reads and writes exactly`, async ({ table }) => {
      const database = new DatabaseSync(":memory:");
      database.exec(`pragma ${pragma}`);
      await assertExactOn(database, table);
    });
  }

  for (const setting of ["count_changes = 1", "short_column_names = 0", "full_column_names = 1"]) {
    test(`a connection with pragma ${setting} is refused by name`, async ({ table }) => {
      const database = new DatabaseSync(":memory:");
      database.exec(`pragma ${setting}`);
      await assertRejects(
        () => openStore(database, { rangeTable: table, initSchema: true }),
        ConfigurationError,
        setting.replace(/ .*/, ""),
      );
      database.close();
    });
  }

  test("a reserve in a function of a statement that fails is not taken back with it", async (fixture) => {
    const database = fixture.connect();
    const store = await openStore(database, fixture.options);
    await store.ranges.reserve("order", 10);
    let call: Promise<{ start: bigint; end: bigint }> | undefined;
    database.function("take", () => {
      call = store.ranges.reserve("order", 10);
      return "no number";
    });
    database.exec("create table numbers (n integer check (typeof(n) = 'integer'))");
    assertThrows(() => database.exec("insert into numbers values (take())"));
    assertEquals(await call, { start: 11n, end: 21n });
    const other = await openStore(fixture.connect(), fixture.options);
    assertEquals(await other.ranges.reserve("order", 10), { start: 21n, end: 31n });
  });

  test("what was passed in is not closed", async (fixture) => {
    const database = fixture.connect();
    const store = await openStore(database, fixture.options);
    await store.ranges.reserve("order", 1);
    await store.close();
    assert(database.isOpen);
    await assertRejects(() => store.ranges.reserve("order", 1), StoreClosedError);
    await assertRejects(() => openStore(database, { rangeTable: "missing" }));
    assert(database.isOpen);
  });

  test("a URL opens a file with write-ahead logging and full synchronisation", async (fixture) => {
    const database = fixture.connect();
    database.exec("pragma synchronous = off");
    const client = new NodeSqliteClient(database, { opened: true });
    const deadline = new Deadline(systemRuntime, { timeoutMs: 5_000 });
    await client.server({ name: "open.server", deadline });
    assertEquals(valueOf(database, "pragma journal_mode"), "wal");
    assertEquals(valueOf(database, "pragma synchronous"), 2);
    await client.close();
    assert(!database.isOpen);
  });

  test("the connection of a URL is closed, also when opening fails", async (fixture) => {
    const { file, url, options } = fixture;
    const store = await openStore(url, options);
    await store.ranges.reserve("order", 1);
    assertEquals(store.warnings, []);
    assertEquals(store.server.product, "SQLite");
    assert(await exists(`${file}-wal`));
    await store.close();
    assert(!await exists(`${file}-wal`), "the connection is still open");
    await assertRejects(() => openStore(url, { rangeTable: "missing" }));
    assert(!await exists(`${file}-wal`), "the connection is still open");
  });

  test("a file that cannot be opened is a failure of the connection", async ({ file }) => {
    const error = await assertRejects(() => openStore(`sqlite:${file}/no/such`), StoreError);
    assertEquals(error.kind, "connection");
  });

  test("a file that is no database is refused with an error of its kind", async ({ file, url }) => {
    await Deno.writeTextFile(file, "This is no database.".repeat(100));
    const error = await assertRejects(() => openStore(url, { initSchema: true }), StoreError);
    assertEquals(error.kind, "other");
    assert(error.cause instanceof Error && !error.message.includes(error.cause.message));
  });

  test("a read-only connection is told from other failures", async (fixture) => {
    await (await openStore(fixture.url, fixture.options)).close();
    const database = new DatabaseSync(fixture.file, { readOnly: true });
    try {
      const store = await openStore(database, { rangeTable: fixture.table });
      const error = await assertRejects(() => store.ranges.reserve("order", 1), StoreError);
      assertEquals(error.kind, "readOnly");
    } finally {
      database.close();
    }
  });

  test("a table that was dropped is told from other failures", async (fixture) => {
    const database = fixture.connect();
    const store = await openStore(database, fixture.options);
    await store.ranges.reserve("order", 1);
    database.exec(`drop table "${fixture.table}"`);
    const error = await assertRejects(() => store.ranges.reserve("order", 1), StoreError);
    assertEquals(error.kind, "missingTable");
  });

  for (const fetchPlan of ["statement", "transaction"] as const) {
    test(`the application's transaction is waited out, plan ${fetchPlan}`, async (fixture) => {
      const clock = new HandRuntime();
      const database = fixture.connect();
      const store = await openStore(database, { ...fixture.options, fetchPlan, runtime: clock });
      const before = await store.ranges.reserve("order", 1);
      database.exec("begin");
      const call = store.ranges.reserve("order", 1);
      for (let ms = 0; ms < 100; ms++) {
        await settle();
        clock.advance(1);
      }
      assertEquals(nextValue(database, fixture.table, "order"), before.end);
      database.exec("rollback");
      const after = await clock.drive(call);
      assertEquals(after.start, before.end);
      assertEquals(clock.pending, 0);
    });

    test(`a transaction that stays open is refused at the deadline, plan ${fetchPlan}`, async (fixture) => {
      const clock = new HandRuntime();
      const database = fixture.connect();
      const options = { ...fixture.options, fetchPlan, runtime: clock };
      const store = await openStore(database, options);
      const before = await store.ranges.reserve("order", 1);
      database.exec("begin");
      for (
        const call of [
          () => store.ranges.reserve("order", 1),
          () => store.ranges.seal("order"),
          () => store.ranges.advance("order", 100),
          () => openStore(database, options),
        ]
      ) await assertRejects(() => clock.drive<unknown>(call()), InTransactionError);
      assert(database.isTransaction);
      assertEquals(nextValue(database, fixture.table, "order"), before.end);
      database.exec("rollback");
      const after = await store.ranges.reserve("order", 1);
      assertDisjoint([before, after]);
      assertEquals(clock.pending, 0);
    });

    test(`transactions that roll back between calls take no range, plan ${fetchPlan}`, async (fixture) => {
      const database = fixture.connect();
      const store = await openStore(database, {
        ...fixture.options,
        fetchPlan,
        groupReserve: false,
      });
      let busy = true;
      const application = (async () => {
        while (busy) {
          database.exec("begin immediate");
          await settle();
          database.exec("rollback");
          await settle();
        }
      })();
      const ranges = await Promise.all(
        Array.from({ length: 30 }, () => store.ranges.reserve("order", 2)),
      );
      busy = false;
      await application;
      assertContiguous(ranges, 1n);
      assertEquals(nextValue(database, fixture.table, "order"), 61n);
    });
  }

  test("nothing of the application's falls into a transaction of the store's", async (fixture) => {
    const database = fixture.connect();
    const client = new NodeSqliteClient(database, { opened: false });
    const deadline = new Deadline(systemRuntime, { timeoutMs: 5_000 });
    const table = Identifier.parse(fixture.table, "rangeTable");
    database.exec(`create table "${fixture.table}" (text text)`);
    const insert = (text: string) => sql`insert into ${table} (text) values (${text})`;
    const inserts: Promise<void>[] = [];
    const rolledBack = client.transaction(
      function* () {
        inserts.push((async () => {
          await Promise.resolve();
          database.exec(`insert into "${fixture.table}" values ('of the application')`);
        })());
        yield insert("ours");
        yield insert("ours too");
        throw new Error("roll back");
      },
      { name: "test", deadline },
    );
    inserts.push(
      settle().then(() => {
        database.exec(`insert into "${fixture.table}" values ('of the application')`);
      }),
    );
    await assertRejects(() => rolledBack, Error, "roll back");
    await Promise.all(inserts);
    const rows = database.prepare(`select text from "${fixture.table}"`).all();
    assertEquals(rows.map((row) => row.text), ["of the application", "of the application"]);
    assert(!database.isTransaction);
  });

  test("several processes that share a file draw no value twice", async (fixture) => {
    const { url, table } = fixture;
    const workers = Array.from({ length: 4 }, () =>
      new Deno.Command(Deno.execPath(), {
        args: [
          "run",
          "--allow-all",
          "--no-lock",
          new URL("sqlite_worker.ts", import.meta.url).href,
          url,
          table,
          "order",
          "500",
        ],
        stdout: "piped",
        stderr: "piped",
      }).output());
    const ranges = [];
    for (const { code, stdout, stderr } of await Promise.all(workers)) {
      assertEquals(code, 0, new TextDecoder().decode(stderr));
      const lines = new TextDecoder().decode(stdout).trim().split("\n");
      assertEquals(lines.length, 500);
      for (const line of lines) {
        const [start = "", end = ""] = line.split(" ");
        ranges.push({ start: BigInt(start), end: BigInt(end) });
      }
    }
    assertContiguous(ranges, 1n);
  });

  test("connections that contend for the lock all get their ranges", async (fixture) => {
    const stores = await Promise.all(
      Array.from({ length: 4 }, () => openStore(fixture.url, fixture.options)),
    );
    const calls = Array.from(
      { length: 80 },
      (_, index) => stores[index % 4]?.ranges.reserve("order", 3),
    );
    const ranges = await Promise.all(calls.filter((call) => call !== undefined));
    assertContiguous(ranges, 1n);
    for (const store of stores) await store.close();
  });

  test("a lock held past the deadline ends the call while the event loop turns", async (fixture) => {
    const store = await openStore(fixture.url, fixture.options);
    const before = await store.ranges.reserve("order", 1);
    const other = fixture.connect();
    other.exec("begin immediate");
    let ticks = 0;
    const interval = setInterval(() => ticks++, 5);
    for (
      const call of [
        () => store.ranges.reserve("order", 1, { timeoutMs: 150 }),
        () => store.ranges.seal("order", { timeoutMs: 150 }),
      ]
    ) {
      ticks = 0;
      await settles(assertRejects(call, TimeoutError), "the call to end");
      assertGreaterOrEqual(ticks, 5);
    }
    clearInterval(interval);
    other.exec("rollback");
    assertEquals((await store.ranges.reserve("order", 1)).start, before.end);
    await store.close();
  });

  test("a lock that ends before the deadline is waited for", async (fixture) => {
    const clock = new HandRuntime();
    const store = await openStore(fixture.url, { ...fixture.options, runtime: clock });
    const other = fixture.connect();
    other.exec("begin immediate");
    const call = store.ranges.reserve("order", 1);
    for (let ms = 0; ms < 200; ms++) {
      await settle();
      clock.advance(1);
    }
    other.exec("commit");
    assertEquals(await clock.drive(call), { start: 1n, end: 2n });
    assertEquals(clock.pending, 0);
    await store.close();
  });

  test("an aborted call ends its wait with the reason", async (fixture) => {
    const database = fixture.connect();
    const store = await openStore(database, fixture.options);
    database.exec("begin");
    const abort = new AbortController();
    const call = store.ranges.reserve("order", 1, { signal: abort.signal });
    const reason = new Error("no longer wanted");
    abort.abort(reason);
    assertEquals(await assertRejects(() => call), reason);
    database.exec("rollback");
    assertEquals(await store.ranges.reserve("order", 1), { start: 1n, end: 2n });
  });

  for (
    const [pragmas, setting] of [
      ["journal_mode = wal; pragma synchronous = normal", "synchronous"],
      ["journal_mode = wal; pragma synchronous = off", "synchronous"],
      ["journal_mode = delete; pragma synchronous = off", "synchronous"],
      ["journal_mode = memory", "journal_mode"],
    ] as const
  ) {
    test(`pragma ${pragmas} on a file is reported`, async (fixture) => {
      const database = fixture.connect();
      database.exec(`pragma ${pragmas}`);
      const events: string[] = [];
      const store = await openStore(database, {
        ...fixture.options,
        onEvent: (event) => void (event.type === "warning" && events.push(event.message)),
      });
      assertEquals(store.warnings.length, 1);
      assertStringIncludes(store.warnings[0] ?? "", setting);
      assertEquals(events, [...store.warnings]);
    });
  }

  for (
    const pragmas of [
      "journal_mode = wal; pragma synchronous = full",
      "journal_mode = wal; pragma synchronous = extra",
      "journal_mode = delete; pragma synchronous = normal",
      "journal_mode = truncate; pragma synchronous = full",
    ]
  ) {
    test(`pragma ${pragmas} on a file is strong enough`, async (fixture) => {
      const database = fixture.connect();
      database.exec(`pragma ${pragmas}`);
      assertEquals((await openStore(database, fixture.options)).warnings, []);
    });
  }

  test("a database in memory, which no crash outlives, is not reported", async ({ options }) => {
    const store = await openStore("sqlite::memory:", options);
    assertEquals(store.warnings, []);
    await store.close();
  });

  test("weak settings of an attached file that holds the table are reported", async (fixture) => {
    const { file, table } = fixture;
    const database = new DatabaseSync(":memory:");
    try {
      database.exec(`attach '${file}' as shop; pragma shop.synchronous = off`);
      const store = await openStore(database, { rangeTable: `shop.${table}`, initSchema: true });
      assertEquals(await store.ranges.reserve("order", 1), { start: 1n, end: 2n });
      assertEquals(store.warnings.length, 1);
      assertStringIncludes(store.warnings[0] ?? "", "synchronous");
    } finally {
      database.close();
    }
  });

  for (
    const [what, ddl] of [
      ["a column collated NOCASE", "(range_key text collate nocase primary key, #)"],
      ["a column collated RTRIM", "(range_key text collate rtrim primary key, #)"],
      [
        "a key collated NOCASE",
        "(range_key text not null, #, primary key (range_key collate nocase))",
      ],
      [
        "a unique constraint collated NOCASE",
        "(range_key text collate nocase not null unique, #)",
      ],
      [
        "a table without rowid and a key collated NOCASE",
        "(range_key text collate nocase primary key, #) without rowid",
      ],
    ] as const
  ) {
    test(`${what} is reported`, async (fixture) => {
      const database = fixture.connect();
      const columns = "next_value bigint not null, sealed boolean not null default false";
      database.exec(`create table "${fixture.table}" ${ddl.replace("#", columns)}`);
      const store = await openStore(database, { rangeTable: fixture.table });
      assertEquals(store.warnings.length, 1);
      assertStringIncludes(store.warnings[0] ?? "", "range_key");
      assertStringIncludes(store.warnings[0] ?? "", fixture.table);
    });
  }

  test("a connection that does not tell of transactions is refused", async () => {
    const database = new DatabaseSync(":memory:");
    const old = { prepare: database.prepare, exec: database.exec, close: database.close };
    await assertRejects(
      () => openStore(Object.assign({}, database, old, { isTransaction: undefined as never })),
      ConfigurationError,
    );
    database.close();
  });

  test("a version without returning is not supported", () => {
    const supports = (version: string) => sqliteDialect.supports({ product: "SQLite", version });
    assertEquals(["3.34.1", "3.9.2", "2.99.0"].map(supports), [false, false, false]);
    assertEquals(["3.35.0", "3.100.0", "4.0.0"].map(supports), [true, true, true]);
    assert(!sqliteDialect.supports({ product: "PostgreSQL", version: "15.1" }));
    return Promise.resolve();
  });

  test("a transaction that the database itself rolled back is reported as it is", async (fixture) => {
    const database = fixture.connect();
    const store = await openStore(database, { ...fixture.options, fetchPlan: "transaction" });
    const before = await store.ranges.reserve("order", 1);
    database.exec(`
      create trigger fail before update on "${fixture.table}" begin
        select raise(rollback, 'no more');
      end
    `);
    const error = await assertRejects(() => store.ranges.reserve("order", 1), StoreError);
    assertEquals(error.kind, "other");
    assert(!error.message.includes("no more"));
    assert(!database.isTransaction);
    database.exec("drop trigger fail");
    assertEquals((await store.ranges.reserve("order", 1)).start, before.end);
  });

  test("calls that fail leave the calls behind them unharmed", async (fixture) => {
    const store = await openStore(fixture.url, fixture.options);
    await store.ranges.seal("sealed");
    const calls = ["sealed", "order", "sealed", "order"].map((key) => store.ranges.reserve(key, 1));
    const { values, errors } = sorted(await Promise.allSettled(calls));
    assertContiguous(values, 1n);
    assertEquals(errors.length, 2);
    for (const error of errors) assertInstanceOf(error, RangeSealedError);
    await store.close();
  });
}

/** Fails unless a store on a connection reads and writes 64-bit integers and texts exactly. */
async function assertExactOn(database: DatabaseSync, table: string): Promise<void> {
  try {
    for (const fetchPlan of ["statement", "transaction"] as const) {
      const store = await openStore(database, { rangeTable: table, initSchema: true, fetchPlan });
      const { ranges } = store;
      const first = 2n ** 53n + 1n;
      assertEquals(await ranges.reserve("exact", 2, { initialOffset: first }), {
        start: first,
        end: first + 2n,
      });
      assertEquals((await ranges.reserve("exact", 1)).start, first + 2n);
      assertEquals(await ranges.advance("exact", 2n ** 62n + 1n), 2n ** 62n + 1n);
      assertEquals(await ranges.advance("exact", 5), 2n ** 62n + 1n);
      assertEquals(await ranges.advance("unused", 2n ** 62n + 1n), 2n ** 62n + 1n);
      assertEquals((await ranges.read("unused"))?.nextValue, 2n ** 62n + 1n);
      await ranges.seal("exact");
      assertEquals(await ranges.read("exact"), { nextValue: 2n ** 62n + 1n, sealed: true });
      await assertRejects(() => ranges.reserve("exact", 1), RangeSealedError);
      await ranges.seal("never used");
      assertEquals((await ranges.read("never used"))?.sealed, true);
      for (const text of ['it\'s 50% "größer" 🦕', 'It\'s 50% "größer" 🦕', "a", "a "]) {
        assertEquals(await ranges.reserve(text, 1), { start: 1n, end: 2n });
      }
      assertEquals(await ranges.read("unknown"), undefined);
      assertNotEquals(store.server.version, "");
      await assertExactSlots(store);
      database.exec(`delete from "${table}"`);
    }
  } finally {
    database.close();
  }
}

function nextValue(database: DatabaseSync, table: string, key: string): bigint {
  const statement = database.prepare(`select next_value from "${table}" where range_key = ?`);
  statement.setReadBigInts(true);
  return BigInt(Number(statement.get(key)?.next_value));
}

function valueOf(database: DatabaseSync, query: string): unknown {
  return Object.values(database.prepare(query).get() ?? {})[0];
}

async function exists(path: string): Promise<boolean> {
  return await Deno.stat(path).then(() => true, () => false);
}
