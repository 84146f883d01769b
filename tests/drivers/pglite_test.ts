import { PGlite, type PGliteOptions } from "@electric-sql/pglite";
import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { openStore } from "../../dialects/postgresql/mod.ts";
import {
  InTransactionError,
  InvalidArgumentError,
  openStore as openFromUrl,
  StoreClosedError,
  StoreError,
  type StoreOptions,
  TimeoutError,
} from "../../mod.ts";
import { HandRuntime, settle } from "../core/hand_runtime.ts";
import { askedServers } from "../servers/asked.ts";
import { removeFolder, temporaryFolder } from "../servers/temporary.ts";
import { assertContiguous, assertDisjoint, settles, tablesBeside, uniqueName } from "./ranges.ts";
import { assertExact } from "./stores.ts";

interface Fixture {
  readonly database: PGlite;
  readonly table: string;
  readonly options: StoreOptions;
  nextValue(key: string): Promise<bigint | undefined>;
}

const plans = ["statement", "transaction"] as const;

let shared: PGlite | undefined;

Deno.test.afterAll(() => shared?.close());

/** Runs something with the database of all tests, which takes a second to make. */
async function withSharedDatabase(body: (fixture: Fixture) => Promise<void>): Promise<void> {
  shared ??= await PGlite.create("memory://");
  try {
    await body(fixtureOf(shared));
  } finally {
    if (shared.isInTransaction()) await shared.exec("rollback");
  }
}

/** Runs something with a database of its own. */
async function withDatabase(
  settings: PGliteOptions,
  body: (fixture: Fixture) => Promise<void>,
): Promise<void> {
  const database = await PGlite.create("memory://", settings);
  try {
    await body(fixtureOf(database));
  } finally {
    if (!database.closed) await database.close();
  }
}

function fixtureOf(database: PGlite): Fixture {
  const table = uniqueName("t");
  return {
    database,
    table,
    options: { ...tablesBeside(table), initSchema: true },
    async nextValue(key) {
      const { rows } = await database.query<{ next: string }>(
        `select next_value::text as next from "${table}" where range_key = $1`,
        [key],
      );
      const next = rows[0]?.next;
      return next === undefined ? undefined : BigInt(next);
    },
  };
}

/** The OIDs of bool, int8, int4, text and varchar. */
const readTypes = [16, 20, 23, 25, 1043];

for (const { name } of askedServers().filter(({ name }) => name === "pglite")) {
  const test = (
    rule: string,
    body: (fixture: Fixture) => Promise<void>,
    settings?: PGliteOptions,
  ) =>
    Deno.test(
      `${name} › ${rule}`,
      () => settings === undefined ? withSharedDatabase(body) : withDatabase(settings, body),
    );
  registerTests(name, test);
}

function registerTests(
  server: string,
  test: (
    rule: string,
    body: (fixture: Fixture) => Promise<void>,
    settings?: PGliteOptions,
  ) => void,
): void {
  for (const fetchPlan of plans) {
    test(`the plan ${fetchPlan} reads and writes exactly`, async ({ database, options }) => {
      await assertExact(await openStore(database, { ...options, fetchPlan }));
    });
  }

  test("parsers and serializers of the application's change nothing", async (fixture) => {
    const { database, options, table } = fixture;
    for (const fetchPlan of plans) {
      await assertExact(await openStore(database, { ...options, fetchPlan }));
      await database.exec(`delete from "${table}"`);
    }
    const { rows } = await database.query("select 1::bigint as one");
    assertEquals(rows, [{ one: 7 }]);
  }, {
    parsers: Object.fromEntries(readTypes.map((type) => [type, () => 7])),
    serializers: Object.fromEntries(readTypes.map((type) => [type, () => "7"])),
  });

  test("what was passed in is not closed", async ({ database, options }) => {
    const store = await openStore(database, options);
    await store.close();
    assert(!database.closed);
    await assertRejects(() => store.ranges.reserve("order", 1), StoreClosedError);
    await assertRejects(() => openStore(database, { rangeTable: "missing" }));
    assert(!database.closed);
  });

  test("an open transaction is refused as a target", async ({ database, options }) => {
    await database.transaction(async (transaction) => {
      const target: Partial<PGlite> = transaction;
      await assertRejects(() => openStore(target as PGlite, options), InTransactionError);
    });
  });

  for (const fetchPlan of plans) {
    test(`a transaction of the application's is waited out, plan ${fetchPlan}`, async (fixture) => {
      const { database, options } = fixture;
      const clock = new HandRuntime();
      const store = await openStore(database, { ...options, fetchPlan, runtime: clock });
      const before = await store.ranges.reserve("order", 1);
      let call: Promise<unknown> = Promise.resolve();
      const rolledBack = database.transaction(async (transaction) => {
        await transaction.query("select 1");
        call = store.ranges.reserve("order", 1);
        for (let ms = 0; ms < 100; ms++) {
          await settle();
          clock.advance(1);
        }
        throw new Error("roll back");
      });
      await assertRejects(() => rolledBack, Error, "roll back");
      clock.advance(20);
      assertEquals(await settles(call, "the call"), { start: before.end, end: before.end + 1n });
      assertEquals(await fixture.nextValue("order"), before.end + 1n);
    });

    test(`a transaction that stays open is refused at the deadline, plan ${fetchPlan}`, async (fixture) => {
      const { database, options } = fixture;
      const clock = new HandRuntime();
      const store = await openStore(database, { ...options, fetchPlan, runtime: clock });
      const before = await store.ranges.reserve("order", 1);
      const rolledBack = database.transaction(async (transaction) => {
        await transaction.query("select 1");
        for (
          const call of [
            () => store.ranges.reserve("order", 1),
            () => store.ranges.seal("order"),
            () => openStore(database, { ...options, runtime: clock }),
          ]
        ) {
          await assertRejects(() => clock.drive<unknown>(call()), InTransactionError);
        }
        throw new Error("roll back");
      });
      await assertRejects(() => rolledBack, Error, "roll back");
      assertEquals(await fixture.nextValue("order"), before.end);
      assertEquals((await store.ranges.reserve("order", 1)).start, before.end);
      assertEquals(clock.pending, 0);
    });

    test(`a transaction begun by hand is refused at the deadline, plan ${fetchPlan}`, async (fixture) => {
      const { database, options } = fixture;
      const clock = new HandRuntime();
      const store = await openStore(database, { ...options, fetchPlan, runtime: clock });
      const before = await store.ranges.reserve("order", 1);
      await database.exec("begin");
      await assertRejects(() => clock.drive(store.ranges.reserve("order", 1)), InTransactionError);
      await database.exec("rollback");
      assertEquals((await store.ranges.reserve("order", 1)).start, before.end);
    });

    test(`a begin queued before a call lets out no range that a rollback takes back, ${fetchPlan}`, async (fixture) => {
      const { database, options } = fixture;
      const store = await openStore(database, { ...options, fetchPlan, timeoutMs: 300 });
      const drawn = [await store.ranges.reserve("order", 1)];
      for (let round = 0; round < 2; round++) {
        const begun = database.exec("begin");
        const call = store.ranges.reserve("order", 1).then(
          (range) => drawn.push(range),
          (error) => assert(error instanceof InTransactionError || error instanceof TimeoutError),
        );
        await begun;
        await settles(call, "the call to end");
        await database.exec("rollback");
        drawn.push(await store.ranges.reserve("order", 1));
        assertDisjoint(drawn);
      }
    });

    test(`a begin queued before a call is not committed by it, ${fetchPlan}`, async (fixture) => {
      const { database, options, table } = fixture;
      const store = await openStore(database, { ...options, fetchPlan, timeoutMs: 300 });
      await store.ranges.reserve("order", 1);
      const begun = database.exec("begin");
      const inserted = database.exec(
        `insert into "${table}" (range_key, next_value) values ('of the application', 1)`,
      );
      const call = store.ranges.reserve("order", 1).catch(() => {});
      await Promise.all([begun, inserted]);
      await settles(call, "the call to end");
      await database.exec("rollback");
      assertEquals(await fixture.nextValue("of the application"), undefined);
    });
  }

  test("a refused call leaves the application's transaction as it was", async (fixture) => {
    const { database, options, table } = fixture;
    const store = await openStore(database, { ...options, timeoutMs: 300 });
    await store.ranges.reserve("order", 1);
    const begun = database.exec("begin");
    const call = assertRejects(() => store.ranges.reserve("order", 1), InTransactionError);
    await begun;
    await call;
    await database.exec(
      `insert into "${table}" (range_key, next_value) values ('of the application', 5); commit`,
    );
    assertEquals(await fixture.nextValue("of the application"), 5n);
    assertEquals(await fixture.nextValue("order"), 2n);
  });

  for (const fetchPlan of plans) {
    test(`calls and transactions of the application's take turns, plan ${fetchPlan}`, async (fixture) => {
      const { database, options } = fixture;
      const store = await openStore(database, { ...options, fetchPlan, groupReserve: false });
      const rolledBack: Promise<unknown>[] = [];
      const calls = Array.from({ length: 20 }, async (_, index) => {
        if (index % 4 === 0) {
          rolledBack.push(assertRejects(() =>
            database.transaction(async (transaction) => {
              await transaction.query("select 1");
              throw new Error("roll back");
            })
          ));
        }
        return await store.ranges.reserve("order", 2);
      });
      assertContiguous(await Promise.all(calls), 1n);
      await Promise.all(rolledBack);
      assertEquals(await fixture.nextValue("order"), 41n);
    });
  }

  test("a table that was dropped is told from other failures", async (fixture) => {
    const { database, options, table } = fixture;
    const store = await openStore(database, options);
    await database.exec(`drop table "${table}"`);
    const error = await assertRejects(() => store.ranges.reserve("order", 1), StoreError);
    assertEquals(error.kind, "missingTable");
    assert(error.cause instanceof Error && !error.message.includes(error.cause.message));
  });

  test("a column that takes different texts for equal is reported", async (fixture) => {
    const { database, table } = fixture;
    await database.exec(
      `create table "${table}" (range_key char(255) primary key, next_value bigint not null, ` +
        `sealed boolean not null default false)`,
    );
    const { warnings } = await openStore(database, { rangeTable: table });
    const found = warnings.filter((warning) => warning.includes("range_key"));
    assertEquals(found.length, 1);
    assertStringIncludes(found[0] ?? "", "char");
  });

  test("a database that is closed is a failure, not a wait", async ({ database, options }) => {
    const store = await openStore(database, options);
    const closing = database.close();
    const error = await settles(
      assertRejects(() => store.ranges.reserve("order", 1, { timeoutMs: 1_000 })),
      "the call to end",
    );
    assertInstanceOf(error, StoreError);
    await closing;
  }, {});

  Deno.test(`${server} › a URL opens a folder, keeps it, and closes it`, async () => {
    const folder = await temporaryFolder("pglite-test");
    try {
      for (const start of [1n, 6n, 11n]) {
        const store = await openStore(`pglite:${folder}`, {
          initSchema: true,
          timeoutMs: 60_000,
        });
        assertEquals(await store.ranges.reserve("order", 5), { start, end: start + 5n });
        assertEquals(store.server.product, "PostgreSQL");
        await store.close();
      }
    } finally {
      await removeFolder(folder);
    }
  });
}

for (const { name } of askedServers().filter(({ name }) => name === "pglite")) {
  Deno.test(`${name} › the entry without a database refuses a PGlite, and leaves it open`, () =>
    withSharedDatabase(async ({ database, options }) => {
      const open = openFromUrl as (target: unknown, options: unknown) => Promise<unknown>;
      const error = await assertRejects(() => open(database, options), InvalidArgumentError);
      assertStringIncludes(error.message, "@fencepost/store/postgresql");
      assertEquals(database.closed, false);
    }));
}
