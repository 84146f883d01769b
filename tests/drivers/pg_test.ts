// @ts-types="npm:@types/pg@^8.23.1"
import pg from "pg";
import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { openStore } from "../../dialects/postgresql/mod.ts";
import { ConfigurationError, InTransactionError, StoreError } from "../../mod.ts";
import { HandRuntime, settle } from "../core/hand_runtime.ts";
import { startProxy } from "../servers/proxy.ts";
import { until } from "../servers/until.ts";
import { lockRow, type PostgresqlDriver, type PostgresqlFixture } from "./postgresql_fixture.ts";
import { testDriver, testEach } from "./postgresql_rules.ts";
import { assertContiguous, assertDisjoint, settles } from "./ranges.ts";
import { assertExact, assertStoreError } from "./stores.ts";

const driver: PostgresqlDriver = {
  name: "pg",
  turns: { first: 1, warm: 1, unprepared: 1 },
  commit: "commit\0",
  open(url, { max = 10, session = {} } = {}) {
    const { application_name, ...settings } = session;
    const options = Object.entries(settings)
      .map(([name, value]) => `-c ${name}=${value.replaceAll(" ", "\\ ")}`).join(" ");
    const pool = new pg.Pool({
      connectionString: url,
      max,
      ...(application_name === undefined ? {} : { application_name }),
      ...(options === "" ? {} : { options }),
    });
    // As the driver asks of every application.
    pool.on("error", () => {});
    return {
      target: pool,
      run: async (text) => (await pool.query(text)).rows,
      [Symbol.asyncDispose]: () => pool.end(),
    };
  },
};

testDriver(driver);

const test = (rule: string, body: (fixture: PostgresqlFixture) => Promise<void>) =>
  testEach(driver.name, rule, body);

const plans = ["statement", "transaction"] as const;

/** Runs something with a pool that is set up as given. */
async function withPool<T>(
  url: string,
  settings: pg.PoolConfig,
  body: (pool: pg.Pool) => Promise<T>,
): Promise<T> {
  const pool = new pg.Pool({ connectionString: url, ...settings });
  pool.on("error", () => {});
  try {
    return await body(pool);
  } finally {
    await pool.end();
  }
}

/** Runs something with a single client that is connected. */
async function withClient<T>(
  url: string,
  body: (client: pg.Client) => Promise<T>,
  settings: pg.ClientConfig = {},
): Promise<T> {
  const client = new pg.Client({ connectionString: url, ...settings });
  client.on("error", () => {});
  await client.connect();
  try {
    return await body(client);
  } finally {
    await client.end();
  }
}

const { builtins } = pg.types;
const readTypes = [builtins.BOOL, builtins.INT8, builtins.INT4, builtins.TEXT, builtins.VARCHAR];

test("type parsers that are set for all pools change nothing that is read", async (fixture) => {
  const before = readTypes.map((type) => [type, pg.types.getTypeParser(type)] as const);
  for (const type of readTypes) pg.types.setTypeParser(type, () => 7);
  try {
    await withPool(fixture.url, {}, async (pool) => {
      await assertExact(await openStore(pool, fixture.options));
      assertEquals((await pool.query("select 1::bigint as one")).rows, [{ one: 7 }]);
    });
  } finally {
    for (const [type, parser] of before) pg.types.setTypeParser(type, parser);
  }
});

const settingsOfPools: Readonly<Record<string, pg.PoolConfig>> = {
  "the defaults": {},
  "types of its own": { types: { getTypeParser: () => () => 7 } },
  "max: 1": { max: 1 },
  "min, maxUses and a short idle timeout": { min: 1, maxUses: 2, idleTimeoutMillis: 1 },
  "timeouts that do not pass": {
    query_timeout: 20_000,
    statement_timeout: 20_000,
    connectionTimeoutMillis: 20_000,
  },
  "keepAlive and allowExitOnIdle": { keepAlive: true, allowExitOnIdle: true },
};

for (const [name, settings] of Object.entries(settingsOfPools)) {
  test(`a pool with ${name} reads and writes exactly`, async (fixture) => {
    for (const fetchPlan of plans) {
      await withPool(fixture.url, settings, async (pool) => {
        await assertExact(await openStore(pool, { ...fixture.options, fetchPlan }));
        await fixture.admin`delete from ${fixture.admin(fixture.table)}`;
      });
    }
  });
}

test("the setting binary is refused by name", async (fixture) => {
  // The driver has it, its types do not.
  const binary: pg.PoolConfig & { binary: boolean } = { binary: true };
  await withPool(fixture.url, binary, async (pool) => {
    const error = await assertRejects(() => openStore(pool, fixture.options), ConfigurationError);
    assertStringIncludes(error.message, "binary");
  });
  await withClient(fixture.url, async (client) => {
    const error = await assertRejects(
      () => openStore(client, { ...fixture.options, exclusive: true }),
      ConfigurationError,
    );
    assertStringIncludes(error.message, "binary");
  }, binary);
});

test("a statement_timeout that passes takes nothing", async (fixture) => {
  await withPool(fixture.url, { statement_timeout: 100 }, async (pool) => {
    const store = await openStore(pool, fixture.options);
    const before = await store.ranges.reserve("order", 10);
    await using lock = await lockRow(fixture, "order");
    const error = await assertStoreError(() => store.ranges.reserve("order", 10), "other");
    assertStringIncludes(error.message, "57014");
    await lock.free();
    assertEquals((await store.ranges.reserve("order", 10)).start, before.end);
  });
});

test("a query_timeout that passes hands nothing out and frees the connection", async (fixture) => {
  const { application } = fixture;
  const settings = { query_timeout: 100, max: 1, application_name: application };
  for (const fetchPlan of plans) {
    await withPool(fixture.url, settings, async (pool) => {
      const store = await openStore(pool, { ...fixture.options, fetchPlan });
      const before = await store.ranges.reserve(fetchPlan, 10);
      await using lock = await lockRow(fixture, fetchPlan);
      const error = await settles(
        assertRejects(() => store.ranges.reserve(fetchPlan, 10), StoreError),
        "the call to end",
      );
      assertEquals(error.statement, "range.reserve");
      await lock.free();
      await fixture.idle();
      const next = await settles(store.ranges.reserve(fetchPlan, 10), "the pool to work again");
      assertDisjoint([before, next]);
      if (fetchPlan === "transaction") assertEquals(next.start, before.end);
    });
  }
});

test("a pool whose connections are all taken ends a call by its deadline", async (fixture) => {
  await withPool(fixture.url, { max: 1 }, async (pool) => {
    const clock = new HandRuntime();
    const store = await openStore(pool, { ...fixture.options, runtime: clock });
    const taken = await pool.connect();
    const call = assertRejects(() => store.ranges.reserve("order", 1), Error, "not done in time");
    await settle();
    clock.advance(5_000);
    await settles(call, "the call to end");
    taken.release();
    assertEquals(await store.ranges.reserve("order", 1), { start: 1n, end: 2n });
    assertEquals(pool.totalCount, 1);
    assertEquals(pool.idleCount, 1);
  });
});

for (const fetchPlan of plans) {
  test(`a connection put back inside a transaction is refused, plan ${fetchPlan}`, async (fixture) => {
    await withPool(fixture.url, { max: 1 }, async (pool) => {
      const store = await openStore(pool, { ...fixture.options, fetchPlan });
      const before = await store.ranges.reserve("order", 1);
      const careless = await pool.connect();
      await careless.query("begin");
      careless.release();
      await assertRejects(() => store.ranges.reserve("order", 1), InTransactionError);
      assertEquals(await fixture.nextValue("order"), before.end);
      await pool.query("rollback");
      assertEquals((await store.ranges.reserve("order", 1)).start, before.end);
    });
  });

  test(`a begin still under way when a connection is put back, plan ${fetchPlan}`, async (fixture) => {
    await withPool(fixture.url, { max: 1 }, async (pool) => {
      const store = await openStore(pool, { ...fixture.options, fetchPlan });
      const drawn = [await store.ranges.reserve("order", 1)];
      const careless = await pool.connect();
      const begun = careless.query("begin");
      careless.release();
      const call = store.ranges.reserve("order", 1).then((range) => drawn.push(range), (error) => {
        assertInstanceOf(error, InTransactionError);
      });
      await begun;
      await call;
      await pool.query("rollback");
      drawn.push(await store.ranges.reserve("order", 1));
      assertDisjoint(drawn);
    });
  });
}

test("a single client is refused unless it is exclusive", async (fixture) => {
  await withClient(fixture.url, async (client) => {
    const error = await assertRejects(() => openStore(client, fixture.options), ConfigurationError);
    assertStringIncludes(error.message, "exclusive: true");
    await assertExact(await openStore(client, { ...fixture.options, exclusive: true }));
  });
  await withPool(fixture.url, {}, async (pool) => {
    const client = await pool.connect();
    try {
      await assertRejects(() => openStore(client, fixture.options), ConfigurationError);
    } finally {
      client.release();
    }
  });
});

for (const fetchPlan of plans) {
  test(`calls on an exclusive client take turns, plan ${fetchPlan}`, async (fixture) => {
    await withClient(fixture.url, async (client) => {
      const options = { ...fixture.options, exclusive: true, fetchPlan, groupReserve: false };
      const store = await openStore(client, options);
      const ranges = await Promise.all(
        Array.from({ length: 20 }, (_, index) => store.ranges.reserve(`key ${index % 2}`, 1)),
      );
      assertContiguous(ranges.filter((_, index) => index % 2 === 0), 1n);
      assertContiguous(ranges.filter((_, index) => index % 2 === 1), 1n);
      assertEquals(client.getTransactionStatus(), "I");
    });
  });

  test(`the application's transaction is waited out, plan ${fetchPlan}`, async (fixture) => {
    await withClient(fixture.url, async (client) => {
      const clock = new HandRuntime();
      const options = { ...fixture.options, exclusive: true, fetchPlan, runtime: clock };
      const store = await openStore(client, options);
      const before = await store.ranges.reserve("order", 1);
      await client.query("begin");
      const call = store.ranges.reserve("order", 1);
      for (let ms = 0; ms < 100; ms++) {
        await settle();
        clock.advance(1);
      }
      assertEquals(await fixture.nextValue("order"), before.end);
      await client.query("rollback");
      clock.advance(20);
      assertEquals((await settles(call, "the call to go on")).start, before.end);
      assertEquals(await fixture.nextValue("order"), before.end + 1n);
    });
  });

  test(`the application's transaction is refused at the deadline, plan ${fetchPlan}`, async (fixture) => {
    await withClient(fixture.url, async (client) => {
      const clock = new HandRuntime();
      const options = { ...fixture.options, exclusive: true, fetchPlan, runtime: clock };
      const store = await openStore(client, options);
      const before = await store.ranges.reserve("order", 1);
      await client.query("begin");
      await assertRejects(() => clock.drive(store.ranges.reserve("order", 1)), InTransactionError);
      await assertRejects(() => clock.drive(store.ranges.seal("order")), InTransactionError);
      await assertRejects(
        () => clock.drive(openStore(client, options)),
        InTransactionError,
      );
      assertEquals(client.getTransactionStatus(), "T");
      await client.query("commit");
      assertEquals((await store.ranges.reserve("order", 1)).start, before.end);
    });
  });

  test(`a begin queued before a call lets out no range that a rollback takes back, ${fetchPlan}`, async (fixture) => {
    await withClient(fixture.url, async (client) => {
      const options = { ...fixture.options, exclusive: true, fetchPlan, timeoutMs: 1_000 };
      const store = await openStore(client, options);
      const drawn = [await store.ranges.reserve("order", 1)];
      for (let round = 0; round < 3; round++) {
        const begun = client.query("begin");
        const call = store.ranges.reserve("order", 1).then(
          (range) => drawn.push(range),
          (error) => assertInstanceOf(error, InTransactionError),
        );
        await begun;
        await settles(call, "the call to end");
        await client.query("rollback");
        drawn.push(await store.ranges.reserve("order", 1));
      }
      assertDisjoint(drawn);
    });
  });

  test(`a begin queued before a call is not committed by it, ${fetchPlan}`, async (fixture) => {
    const { admin, table } = fixture;
    await withClient(fixture.url, async (client) => {
      const options = { ...fixture.options, exclusive: true, fetchPlan, timeoutMs: 1_000 };
      const store = await openStore(client, options);
      await store.ranges.reserve("order", 1);
      const begun = client.query("begin");
      const inserted = client.query(
        `insert into "${table}" (range_key, next_value) values ('of the application', 1)`,
      );
      const call = store.ranges.reserve("order", 1).catch(() => {});
      await Promise.all([begun, inserted]);
      await settles(call, "the call to end");
      await client.query("rollback");
      const rows = await admin`
        select 1 from ${admin(table)} where range_key = 'of the application'
      `;
      assertEquals(rows.length, 0);
    });
  });
}

test("the application's prepared statements and names stay its own", async (fixture) => {
  await withPool(fixture.url, { max: 1 }, async (pool) => {
    const stores = [
      await openStore(pool, fixture.options),
      await openStore(pool, { ...fixture.options, fetchPlan: "transaction" }),
    ];
    for (let count = 0; count < 3; count++) {
      for (const store of stores) await store.ranges.reserve("order", 1);
      const query = { name: `fencepost_${count}`, text: "select $1::text as text", values: ["x"] };
      assertEquals((await pool.query(query)).rows, [{ text: "x" }]);
    }
    assertEquals(await fixture.nextValue("order"), 7n);
  });
});

test("a connection that breaks while it is held ends the call, not the process", async (fixture) => {
  const uncaught: unknown[] = [];
  const note = (event: ErrorEvent) => {
    event.preventDefault();
    uncaught.push(event.error);
  };
  globalThis.addEventListener("error", note);
  try {
    await using proxy = await startProxy(fixture.url);
    await withPool(proxy.url, {}, async (pool) => {
      const store = await openStore(pool, fixture.options);
      await store.ranges.reserve("order", 1);
      const cut = proxy.cutBefore(`insert into "${fixture.table}"`);
      await assertStoreError(() => store.ranges.reserve("order", 1), "connection");
      await cut;
      await until(() => pool.totalCount === 0 || undefined, { what: "the connection to go" });
    });
    assertEquals(uncaught, []);
  } finally {
    globalThis.removeEventListener("error", note);
  }
});

test("no listener is left on a connection that was put back", async (fixture) => {
  await withPool(fixture.url, { max: 1 }, async (pool) => {
    const store = await openStore(pool, fixture.options);
    const listeners = async () => {
      const client = await pool.connect();
      const counts = client.eventNames().map((name) => client.listenerCount(name));
      client.release();
      return counts.reduce((sum, count) => sum + count, 0);
    };
    await store.ranges.reserve("order", 1);
    const before = await listeners();
    for (let count = 0; count < 20; count++) await store.ranges.reserve("order", 1);
    assertEquals(await listeners(), before);
    assert(before < 5);
  });
});

test("stores on one pool share what is prepared", async (fixture) => {
  await withPool(fixture.url, { max: 1 }, async (pool) => {
    const count = async () => {
      const { rows } = await pool.query(
        "select count(*)::integer as count from pg_prepared_statements",
      );
      return rows[0].count;
    };
    await (await openStore(pool, fixture.options)).ranges.reserve("order", 1);
    const before = await count();
    for (let opened = 0; opened < 5; opened++) {
      await (await openStore(pool, fixture.options)).ranges.reserve("order", 1);
    }
    assertEquals(await count(), before);
  });
});

test("two stores on one exclusive client take turns, in both plans", async (fixture) => {
  await withClient(fixture.url, async (client) => {
    const options = { ...fixture.options, exclusive: true, groupReserve: false };
    const stores = [
      await openStore(client, { ...options, fetchPlan: "transaction" }),
      await openStore(client, options),
    ];
    const calls = stores.flatMap(({ ranges }) =>
      Array.from({ length: 20 }, () => ranges.reserve("order", 1))
    );
    assertContiguous(await Promise.all(calls), 1n);
  });
});

test("a version of pg that does not tell of transactions is refused", async (fixture) => {
  await withPool(fixture.url, { max: 1 }, async (pool) => {
    const client = await pool.connect();
    client.getTransactionStatus = undefined as never;
    client.release();
    await assertRejects(
      () => openStore(pool, fixture.options),
      ConfigurationError,
      "getTransactionStatus",
    );
  });
});
