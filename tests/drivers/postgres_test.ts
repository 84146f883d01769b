import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import postgres from "postgres";
import { openStore } from "../../dialects/postgresql/mod.ts";
import { ConfigurationError, InTransactionError, SchemaError, TimeoutError } from "../../mod.ts";
import { startProxy } from "../servers/proxy.ts";
import { until } from "../servers/until.ts";
import {
  type PostgresqlDriver,
  type PostgresqlFixture,
  postgresqlServers,
} from "./postgresql_fixture.ts";
import { allWords } from "../words.ts";
import { openNetwork, testDriver, testEach } from "./postgresql_rules.ts";
import { assertDisjoint, settles, sorted } from "./ranges.ts";
import { assertExact } from "./stores.ts";

const driver: PostgresqlDriver = {
  name: "postgres",
  turns: { first: 2, warm: 1, unprepared: 2 },
  commit: "commit and chain",
  open(url, { max = 10, session = {} } = {}) {
    const sql = postgres(url, {
      max,
      connection: session,
      backoff: false,
      // A connection that breaks while the driver asks for types rejects a promise of the driver's own
      // that nobody can handle.
      fetch_types: false,
      onnotice: () => {},
    });
    return {
      target: sql,
      run: async (text) => await sql.unsafe(text),
      [Symbol.asyncDispose]: () => sql.end({ timeout: 0 }),
    };
  },
};

testDriver(driver);

const test = (rule: string, body: (fixture: PostgresqlFixture) => Promise<void>) =>
  testEach(driver.name, rule, body);

type Types = Record<string, postgres.PostgresType>;
type Settings = postgres.Options<Types>;

/** Runs something with a pool that is set up as given. */
async function withPool<T>(
  url: string,
  settings: Settings,
  body: (sql: postgres.Sql) => Promise<T>,
): Promise<T> {
  const sql: postgres.Sql = postgres(url, { onnotice: () => {}, ...settings });
  try {
    return await body(sql);
  } finally {
    await sql.end({ timeout: 0 });
  }
}

/** A type whose parser and serializer change what they get. */
function damaging(oid: number): postgres.PostgresType {
  return { to: oid, from: [oid], serialize: () => "7", parse: () => 7 };
}

/** What callers without types pass. */
function untyped(value: object): postgres.Sql {
  const target: Partial<postgres.Sql> = value;
  return target as postgres.Sql;
}

const lossy: postgres.PostgresType = {
  to: 20,
  from: [20],
  serialize: (value: unknown) => String(Number(value)),
  parse: (text: string) => Number(text),
};

const settingsOfPools: Readonly<Record<string, Settings>> = {
  "the defaults": {},
  "transform: camel": { transform: postgres.camel },
  "transform: pascal": { transform: postgres.pascal },
  "transform: kebab": { transform: postgres.kebab },
  "transform.column: toCamel": { transform: { column: postgres.toCamel } },
  "transform.undefined: null": { transform: { undefined: null } },
  "transform.value that changes values": { transform: { value: { from: () => "changed" } } },
  "types.bigint": { types: { bigint: postgres.BigInt } },
  "a parser that rounds 64-bit integers": { types: { lossy } },
  "types that damage every value": {
    types: { bool: damaging(16), int8: damaging(20), int4: damaging(23), text: damaging(25) },
  },
  "fetch_types: false": { fetch_types: false },
  "prepare: false": { prepare: false },
  "debug": { debug: () => {} },
  "max: 2": { max: 2 },
};

for (const [name, settings] of Object.entries(settingsOfPools)) {
  test(`a pool with ${name} reads and writes exactly`, async (fixture) => {
    for (const fetchPlan of ["statement", "transaction"] as const) {
      await withPool(fixture.url, settings, async (sql) => {
        const store = await openStore(sql, { ...fixture.options, fetchPlan });
        await assertExact(store);
        await fixture.admin`delete from ${fixture.admin(fixture.table)}`;
      });
    }
  });
}

test("the settings of a pool still hold for the application", async (fixture) => {
  const settings = { transform: postgres.camel, types: { lossy } };
  await withPool(fixture.url, settings, async (sql) => {
    const store = await openStore(sql, fixture.options);
    await store.ranges.reserve("order", 1);
    const [row] = await sql`select next_value from ${sql(fixture.table)}`;
    assertEquals({ ...row }, { nextValue: 2 });
  });
});

test("transform.row is refused by name", async (fixture) => {
  const settings = { transform: { row: { from: (row: unknown) => row } } };
  await withPool(fixture.url, settings, async (sql) => {
    const error = await assertRejects(() => openStore(sql, fixture.options), ConfigurationError);
    assertStringIncludes(error.message, "transform.row");
  });
});

test("a column transform that merges names is refused by name", async (fixture) => {
  const settings = { transform: { column: { from: () => "same" } } };
  await withPool(fixture.url, settings, async (sql) => {
    const error = await assertRejects(() => openStore(sql, fixture.options), ConfigurationError);
    assertStringIncludes(error.message, "transform.column");
  });
});

test("a pool of one connection is refused unless it is exclusive", async (fixture) => {
  await withPool(fixture.url, { max: 1 }, async (sql) => {
    for (const options of [{}, { exclusive: false }]) {
      const error = await assertRejects(
        () => openStore(sql, { ...fixture.options, ...options }),
        ConfigurationError,
      );
      assertStringIncludes(error.message, "exclusive: true");
    }
    await assertExact(await openStore(sql, { ...fixture.options, exclusive: true }));
  });
});

test("an open transaction and a reserved connection are refused", async (fixture) => {
  await withPool(fixture.url, {}, async (sql) => {
    await sql.begin(async (transaction) => {
      await assertRejects(
        () => openStore(untyped(transaction), fixture.options),
        InTransactionError,
      );
      await assertRejects(
        () => openStore(untyped(transaction), { ...fixture.options, exclusive: true }),
        InTransactionError,
      );
      await transaction.savepoint(async (savepoint) => {
        await assertRejects(
          () => openStore(untyped(savepoint), fixture.options),
          InTransactionError,
        );
      });
    });
    const reserved = await sql.reserve();
    try {
      for (const exclusive of [false, true]) {
        const error = await assertRejects(
          () => openStore(reserved, { ...fixture.options, exclusive }),
          ConfigurationError,
        );
        assertStringIncludes(error.message, "reserved");
      }
    } finally {
      reserved.release();
    }
  });
});

test("what the application rolls back takes no range with it", async (fixture) => {
  await withPool(fixture.url, { max: 2 }, async (sql) => {
    const store = await openStore(sql, { ...fixture.options, groupReserve: false });
    const before = await store.ranges.reserve("order", 1);
    const ranges = await Promise.all(Array.from({ length: 10 }, async (_, index) => {
      const rolledBack = sql.begin(async (transaction) => {
        await transaction`select 1`;
        if (index % 2) await transaction`select ${index}::text`;
        throw new Error("roll back");
      });
      const range = store.ranges.reserve("order", 1);
      await assertRejects(() => rolledBack, Error, "roll back");
      return await range;
    }));
    assertDisjoint([before, ...ranges]);
    assertEquals(await fixture.nextValue("order"), 12n);
  });
});

test("the pool of a URL is closed, also when opening fails", async (fixture) => {
  const { application, admin, table } = fixture;
  const url = new URL(fixture.url);
  url.searchParams.set("application_name", application);
  const sessions = async () => {
    const [row] = await admin`
      select count(*)::integer as count from pg_stat_activity where application_name = ${application}
    `;
    return row?.count;
  };
  const store = await openStore(url.href, { ...fixture.options, groupReserve: false });
  await Promise.all(Array.from({ length: 8 }, () => store.ranges.reserve("order", 1)));
  assert(await sessions() > 1);
  await store.close();
  await until(async () => await sessions() === 0 || undefined, { what: "the pool to close" });
  await assertRejects(() => openStore(url.href, { rangeTable: `${table}_missing` }), SchemaError);
  await until(async () => await sessions() === 0 || undefined, { what: "the pool to close" });
});

test("a URL takes the user and password as options", async (fixture) => {
  const role = await fixture.role("p@ss:word/%");
  const url = new URL(fixture.url);
  url.username = "";
  url.password = "";
  const options = { username: role, password: "p@ss:word/%", rangeTable: fixture.table };
  await fixture.createTable();
  await fixture.admin.unsafe(`grant all on "${fixture.table}" to "${role}"`);
  const store = await openStore(url.href, options);
  assertEquals(await store.ranges.reserve("order", 1), { start: 1n, end: 2n });
  await store.close();
});

test("a store of a URL asks the server for nothing that it does not need", async (fixture) => {
  // A connection that breaks while postgres.js asks for types ends the process by a rejection that
  // nobody can handle.
  const unhandled: unknown[] = [];
  const note = (event: PromiseRejectionEvent) => {
    event.preventDefault();
    unhandled.push(event.reason);
  };
  globalThis.addEventListener("unhandledrejection", note);
  try {
    await using proxy = await startProxy(fixture.url);
    const asked = proxy.cutBefore("typarray").then(() => "asked for array types", () => "");
    const open = openStore(proxy.url, { ...fixture.options, timeoutMs: 2_000 });
    const opened = await open.catch((error: unknown) => error);
    if (!(opened instanceof Error)) {
      const store = await open;
      await store.ranges.reserve("order", 1);
      await store.close();
    }
    await proxy.close();
    assertEquals(await asked, "");
    assertEquals(unhandled, []);
  } finally {
    globalThis.removeEventListener("unhandledrejection", note);
  }
});

for (const { name, url } of postgresqlServers) {
  Deno.test(`${name} (postgres) › no part of a URL's password is in an error`, async () => {
    const { host } = new URL(url);
    for (
      const bad of [
        "postgres://u:s3cr3t@host:notaport/db",
        "postgres://u:s3cr3t%@host/db",
        `postgres://u:s3cr3t@${host}/no_such_database`,
        `postgres://no_such_user:s3cr3t@${host}/postgres`,
        `postgres://u:s3cr3t@${host}/db?target_session_attrs=nonsense`,
        `postgresql://u:s3cr3t@127.0.0.1:1/db`,
      ]
    ) {
      const error = await assertRejects(() => openStore(bad, { timeoutMs: 3_000 }));
      assert(!allWords(error).includes("s3cr3t"), `the password of ${bad} is in its error`);
    }
  });
}

test("connections that are all stuck work again once they are reset", async (fixture) => {
  await using network = await openNetwork(fixture, driver, { groupReserve: false, max: 2 });
  const { proxy, store } = network;
  const drawn = [await store.ranges.reserve("order", 1)];
  proxy.blackhole("toClient");
  const calls = Promise.allSettled(
    Array.from({ length: 6 }, () => store.ranges.reserve("order", 1, { timeoutMs: 500 })),
  );
  const { errors } = sorted(await settles(calls, "the calls to end"));
  assertEquals(errors.filter((error) => error instanceof TimeoutError).length, 6);
  const committed = await fixture.nextValue("order");
  assert(committed !== undefined && committed > 2n, "nothing was sent");
  proxy.heal();
  proxy.cut();
  const next = await network.eventually("order", 1);
  assertDisjoint([...drawn, next]);
  assert(next.start >= committed, "what was committed was handed out again");
});
