import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import postgres from "postgres";
import { h2Dialect, H2PostgresJsClient, openStore } from "../../dialects/h2/mod.ts";
import { openStore as openPostgresql } from "../../dialects/postgresql/mod.ts";
import {
  ConfigurationError,
  Deadline,
  FencepostError,
  Identifier,
  InvalidArgumentError,
  openStore as openAny,
  type Range,
  ReserveConflictError,
  sql,
  type Store,
  StoreError,
  systemRuntime,
  TimeoutError,
} from "../../mod.ts";
import { settle } from "../core/hand_runtime.ts";
import { askedServers } from "../servers/asked.ts";
import { startProxy } from "../servers/proxy.ts";
import { until } from "../servers/until.ts";
import { allWords } from "../words.ts";
import {
  assertContiguous,
  assertDisjoint,
  type OwnTables,
  settles,
  sorted,
  tablesBeside,
  uniqueName,
} from "./ranges.ts";
import { assertExact } from "./stores.ts";

type Settings = postgres.Options<Record<string, postgres.PostgresType>>;

/** A database of a test's own, which is in memory, and so ends with its last connection. */
interface Fixture {
  /** The database. */
  readonly url: string;
  /** The host and port. */
  readonly host: string;
  /** Names a table that no other test uses, and creates it. */
  readonly options: OwnTables & { readonly initSchema: true };
  /** A connection that is no part of what is tested, and keeps the database alive. */
  readonly admin: postgres.Sql;
  /** Makes a pool of the application's. */
  pool(settings?: Settings): postgres.Sql;
  /** What the table holds for a key. */
  nextValue(key: string): Promise<bigint | undefined>;
}

/** A URL of H2's as postgres.js takes it. */
function driverUrl(url: string): string {
  return url.replace(/^h2:/, "postgres:");
}

async function withFixture(
  server: string,
  settings: string,
  body: (fixture: Fixture) => Promise<void>,
): Promise<void> {
  const { host } = new URL(driverUrl(server));
  const database = `mem:${uniqueName("db")}${settings}`;
  const url = `h2://sa@${host}/${encodeURIComponent(database)}`;
  const pools: postgres.Sql[] = [];
  const pool = (settings: Settings = {}) => {
    const made: postgres.Sql = postgres(driverUrl(url), {
      database,
      fetch_types: false,
      onnotice: () => {},
      backoff: false,
      ...settings,
    });
    pools.push(made);
    return made;
  };
  const rangeTable = uniqueName("t");
  const admin = pool({ max: 1 });
  try {
    await admin.unsafe("select 1");
    await body({
      url,
      host,
      admin,
      pool,
      options: { ...tablesBeside(rangeTable), initSchema: true },
      async nextValue(key) {
        const [row] = await admin.unsafe(
          `select next_value from "${rangeTable}" where range_key = cast($1 as varchar)`,
          [key],
        );
        return row && BigInt(row.next_value);
      },
    });
  } finally {
    await Promise.all(pools.map((made) => made.end({ timeout: 1 })));
  }
}

const servers = askedServers().filter(({ name }) => name === "h2");

function test(
  rule: string,
  body: (fixture: Fixture) => Promise<void>,
  settings = "",
): void {
  for (const { name, url } of servers) {
    Deno.test(`${name} › ${rule}`, () => withFixture(url, settings, body));
  }
}

function call(timeoutMs = 20_000) {
  return { name: "test", deadline: new Deadline(systemRuntime, { timeoutMs }) };
}

function clientOf(pool: postgres.Sql, exclusive = false): H2PostgresJsClient {
  return new H2PostgresJsClient(pool, { opened: false, exclusive, prepare: true });
}

const lossy: postgres.PostgresType = {
  to: 20,
  from: [20],
  serialize: (value: unknown) => String(Number(value)),
  parse: (text: string) => Number(text),
};

function damaging(oid: number): postgres.PostgresType {
  return { to: oid, from: [oid], serialize: () => "7", parse: () => 7 };
}

const settingsOfPools: Readonly<Record<string, Settings>> = {
  "nothing but fetch_types: false": {},
  "prepare: false": { prepare: false },
  "transform: camel": { transform: postgres.camel },
  "transform.value that changes values": { transform: { value: { from: () => "changed" } } },
  "types.bigint": { types: { bigint: postgres.BigInt } },
  "a parser that rounds 64-bit integers": { types: { lossy } },
  "types that damage every value": {
    types: { bool: damaging(16), int8: damaging(20), text: damaging(25), varchar: damaging(1043) },
  },
  "max: 2": { max: 2 },
};

for (const [name, settings] of Object.entries(settingsOfPools)) {
  for (const fetchPlan of ["statement", "transaction"] as const) {
    test(`a pool with ${name} reads and writes exactly, plan ${fetchPlan}`, async (fixture) => {
      const store = await openStore(fixture.pool(settings), { ...fixture.options, fetchPlan });
      await assertExact(store);
    });
  }
}

test("fetch_types is refused by name, before anything is sent", async ({ pool, options }) => {
  const sent: string[] = [];
  const debug = (_: number, text: string) => void sent.push(text);
  for (const settings of [{ fetch_types: true }, { fetch_types: true, prepare: false }]) {
    const error = await assertRejects(
      () => openStore(pool({ ...settings, debug }), options),
      ConfigurationError,
    );
    assertStringIncludes(error.message, "fetch_types");
  }
  assertEquals(sent, []);
});

test("a pool of one connection is refused unless it is exclusive", async ({ pool, options }) => {
  const one = pool({ max: 1 });
  await assertRejects(() => openStore(one, options), ConfigurationError, "exclusive: true");
  await assertExact(await openStore(one, { ...options, exclusive: true }));
});

test("a URL opens a store whose connections it closes", async ({ url, host, admin, options }) => {
  const sessions = async () => {
    const [row] = await admin.unsafe("select count(*) as n from information_schema.sessions");
    return Number(row?.n);
  };
  for (const open of [openStore, openAny]) {
    const store = await open(url, options);
    await store.ranges.reserve("order", 1);
    assert(await sessions() > 1);
    await store.close();
    await until(async () => await sessions() === 1 || undefined, { what: "the pool to close" });
  }
  const database = url.slice(url.lastIndexOf("/") + 1);
  for (
    const [target, more] of [
      [`h2://${host}/${database}`, {}],
      [`h2://nobody@${host}/${database}`, { username: "sa" }],
      [`h2://sa:wrong@${host}/${database}`, { password: "" }],
      [`H2://sa@${host}/${decodeURIComponent(database)}`, { prepare: false }],
    ] as const
  ) {
    const store = await openStore(target, { ...options, ...more });
    assertEquals(store.server.product, "H2");
    await store.close();
  }
});

for (
  const url of [
    "h2:",
    "h2://",
    "h2:/db",
    "h2://host",
    "h2://host/",
    "h2://host/db?prepare=false",
    "postgres://host/db",
    "h3://host/db",
    "db",
  ]
) {
  Deno.test(`the URL ${url} is refused by the entry of H2`, async () => {
    await assertRejects(() => openStore(url), InvalidArgumentError, "the URL must");
  });
}

test("a wrong password ends with the deadline, and is in no error", async ({ url }) => {
  const options = { username: "sa", password: "s3cr3t", timeoutMs: 700 };
  const opened = openStore(url, options).then(() => undefined, (error: unknown) => error);
  const error = await settles(opened, "the opening to end");
  assert(error instanceof TimeoutError);
  assertEquals(error.timeoutMs, 700);
  assert(!allWords(error).includes("s3cr3t"));
});

test("a reserve takes one round trip once its connection knows it", async (fixture) => {
  await using proxy = await startProxy(driverUrl(fixture.url));
  const pool = fixture.pool({ port: proxy.port, max: 1 });
  const options = { ...fixture.options, exclusive: true };
  for (const [prepare, turns] of [[true, 1], [false, 2]] as const) {
    const store = await openStore(pool, { ...options, prepare });
    await store.ranges.reserve("order", 1);
    proxy.resetTurns();
    await store.ranges.reserve("order", 2, { initialOffset: 9 });
    assertEquals(proxy.turns, turns);
    proxy.resetTurns();
    await store.ranges.reserve("order", 1);
    assertEquals(proxy.turns, turns);
  }
  await pool.end();
});

const levels = [
  "read uncommitted",
  "read committed",
  "repeatable read",
  "snapshot",
  "serializable",
];

for (const level of levels) {
  const rule = `in sessions of ${level}`;
  const setLevel = `;INIT=set session characteristics as transaction isolation level ${level}`;

  test(`many callers on new keys share no value ${rule}`, async (fixture) => {
    const retries: string[] = [];
    const stores = await Promise.all(
      ["statement", "transaction"].map((fetchPlan) =>
        openStore(fixture.pool({ max: 6 }), {
          ...fixture.options,
          fetchPlan: fetchPlan as "statement" | "transaction",
          groupReserve: false,
          timeoutMs: 30_000,
          onEvent: (event) => void (event.type === "retry" && retries.push(event.kind)),
        })
      ),
    );
    const [row] = await fixture.admin.unsafe(
      "select lower(isolation_level) as level from information_schema.sessions " +
        "where session_id = session_id()",
    );
    assertEquals(row?.level, level);
    for (let key = 0; key < 10; key++) {
      const results = await Promise.allSettled(
        stores.flatMap(({ ranges }) =>
          Array.from({ length: 8 }, (_, index) => ranges.reserve(`key-${key}`, 1 + index % 3))
        ),
      );
      const { values, errors } = sorted(results);
      assertDisjoint(values);
      // Such a session may find no row to update while another is just inserting it.
      const conflicts = errors.filter((error) => error instanceof ReserveConflictError);
      assertEquals(errors.length, level === "read uncommitted" ? conflicts.length : 0);
      if (errors.length === 0) assertContiguous(values, 1n);
    }
    for (const kind of retries) assertMatch(kind, /^(serialization|deadlock)$/);
  }, setLevel);
}

test("a key that another transaction inserts is waited for, and reserved from", async (fixture) => {
  const store = await openStore(fixture.pool(), fixture.options);
  const other = fixture.pool({ max: 1 });
  const table = fixture.options.rangeTable;
  for (const [end, first] of [["commit", 500n], ["rollback", 1n]] as const) {
    await other.unsafe("begin");
    await other.unsafe(`insert into "${table}" (range_key, next_value) values ('${end}', 500)`);
    const reserved = store.ranges.reserve(end, 1);
    await executing(fixture, "merge into", 1);
    await other.unsafe(end);
    assertEquals(await reserved, { start: first, end: first + 1n });
  }
});

/** Waits until so many sessions of the database are in the middle of a statement. */
async function executing({ admin }: Fixture, text: string, count: number): Promise<void> {
  await until(async () => {
    const rows = await admin.unsafe(
      "select 1 from information_schema.sessions " +
        `where executing_statement like '%${text}%' and session_id <> session_id()`,
    );
    return rows.length === count || undefined;
  }, { what: `${count} sessions to execute ${text}` });
}

for (
  const [name, open, close] of [
    ["begun by hand", "begin", "rollback"],
    ["of a connection without autocommit", "set autocommit false", "rollback; set autocommit true"],
  ] as const
) {
  test(`in a transaction ${name} nothing is reserved`, async (fixture) => {
    const pool = fixture.pool({ max: 1 });
    const store = await openStore(pool, { ...fixture.options, exclusive: true });
    await store.ranges.reserve("order", 10);
    await pool.unsafe(open);
    await assertRejects(() => store.ranges.reserve("order", 10), ReserveConflictError);
    await assertRejects(() => store.ranges.reserve("new", 10), ReserveConflictError);
    await pool.unsafe(close);
    assertEquals(await store.ranges.reserve("order", 10), { start: 11n, end: 21n });
    assertEquals(await store.ranges.read("new"), undefined);
  });
}

test("a transaction that a deadlock ended sends nothing more", async (fixture) => {
  const sent: string[] = [];
  const debug = (_: number, text: string) => void sent.push(text.trim());
  const client = clientOf(fixture.pool({ max: 2, debug }));
  const opened = await openAny(client, { ...fixture.options, dialect: h2Dialect });
  await Promise.all(["a", "b"].map((key) => opened.ranges.reserve(key, 1)));
  const gate = fixture.pool({ max: 1 });
  await gate.unsafe('create table "gate" (n integer); insert into "gate" values (1)');
  const table = Identifier.parse(fixture.options.rangeTable, "rangeTable");
  const raise = (first: string, second: string) =>
    client.transaction(function* () {
      yield sql`update ${table} set next_value = next_value + ${1n} where range_key = ${first}`;
      yield sql`update ${Identifier.parse("gate", "gate")} set n = n + 1`;
      yield sql`update ${table} set next_value = next_value + ${1n} where range_key = ${second}`;
    }, call());
  await gate.unsafe("begin");
  await gate.unsafe('update "gate" set n = 0');
  sent.length = 0;
  const raised = Promise.allSettled([raise("a", "b"), raise("b", "a")]);
  await executing(fixture, 'update "gate"', 2);
  await gate.unsafe("rollback");
  const { values, errors } = sorted(await raised);
  assertEquals([values.length, errors.length], [1, 1]);
  assertEquals(h2Dialect.classify(errors[0]), "deadlock");
  assertEquals(sent.filter((text) => text === "rollback"), []);
  assertEquals([await fixture.nextValue("a"), await fixture.nextValue("b")], [3n, 3n]);
  await raise("a", "b");
  assertEquals(await fixture.nextValue("a"), 4n);
});

test("a transaction that somebody else ended has an unknown outcome", async (fixture) => {
  const pool = fixture.pool({ max: 2 });
  const store = await openStore(pool, fixture.options);
  await store.ranges.reserve("order", 1);
  // The pool in the place of the transaction: its connections are in none.
  const ended = new Proxy(pool, {
    get: (target, name) =>
      name === "begin"
        ? (_: string, work: (transaction: postgres.Sql) => Promise<unknown>) => work(pool)
        : Reflect.get(target, name),
  });
  const broken = await openStore(ended, { ...fixture.options, fetchPlan: "transaction" });
  const error = await assertRejects(() => broken.ranges.reserve("order", 1), StoreError);
  assertEquals(error.kind, "connection");
});

test("what the application rolls back takes no range with it", async (fixture) => {
  const pool = fixture.pool({ max: 2 });
  const store = await openStore(pool, { ...fixture.options, groupReserve: false });
  const ranges = await Promise.all(Array.from({ length: 10 }, async () => {
    const rolledBack = pool.begin(async (transaction) => {
      await transaction.unsafe("select 1");
      throw new Error("roll back");
    });
    const range = store.ranges.reserve("order", 1);
    await assertRejects(() => rolledBack, Error, "roll back");
    return await range;
  }));
  assertContiguous(ranges, 1n);
  assertEquals(await fixture.nextValue("order"), 11n);
});

test("statements of the application's that H2 cannot parse cause no duplicate", async (fixture) => {
  const pool = fixture.pool({ max: 2 });
  const options = { ...fixture.options, timeoutMs: 3_000, groupReserve: false };
  const store = await openStore(pool, options);
  const given = [];
  for (let round = 0; round < 10; round++) {
    const broken = Array.from(
      { length: 3 },
      (_, index) => pool`select ${index} from ${pool(`missing_${round}_${index}`)}`,
    );
    const reserved = Array.from(
      { length: 20 },
      (_, index) => store.ranges.reserve("order", 1 + (index * 7 + round) % 11),
    );
    const results = await Promise.allSettled([...reserved, ...broken]);
    const { values, errors } = sorted(results.slice(0, reserved.length));
    for (const error of errors) assert(error instanceof FencepostError);
    given.push(...values.filter((value) => "start" in value));
  }
  assertDisjoint(given as { start: bigint; end: bigint }[]);
  const end = await fixture.nextValue("order");
  const after = await openStore(fixture.pool(), options);
  assertEquals((await after.ranges.reserve("order", 1)).start, end);
});

test("a statement that H2 cannot parse has H2's error", async (fixture) => {
  const pool = fixture.pool({ max: 1 });
  const options = { ...fixture.options, exclusive: true };
  for (let round = 0; round < 3; round++) {
    const { ranges } = await openStore(pool, options);
    await fixture.admin.unsafe(`drop table "${fixture.options.rangeTable}"`);
    for (const fail of [() => ranges.reserve("order", 1), () => ranges.read("order")]) {
      assertEquals((await assertRejects(fail, StoreError)).kind, "missingTable");
    }
  }
  const { ranges } = await openStore(pool, options);
  assertEquals(await ranges.reserve("order", 1), { start: 1n, end: 2n });
});

test("a lock that does not come free in time is waited for again", async (fixture) => {
  const kinds: string[] = [];
  const store = await openStore(fixture.pool(), {
    ...fixture.options,
    timeoutMs: 20_000,
    onEvent: (event) => void (event.type === "retry" && kinds.push(event.kind)),
  });
  await store.ranges.reserve("order", 10);
  const other = fixture.pool({ max: 1 });
  await other.unsafe("begin");
  await other.unsafe(`update "${fixture.options.rangeTable}" set sealed = false`);
  const reserved = store.ranges.reserve("order", 10);
  await settles(
    (async () => {
      while (kinds.length < 2) await fixture.admin.unsafe("select 1");
    })(),
    "the lock timeout",
  );
  await other.unsafe("rollback");
  assertEquals(await reserved, { start: 11n, end: 21n });
  assertEquals(new Set(kinds), new Set(["serialization"]));
}, ";INIT=set lock_timeout 50");

test("a user without the right to write is told so", async (fixture) => {
  const store = await openStore(fixture.pool(), fixture.options);
  await store.ranges.reserve("order", 1);
  await fixture.admin.unsafe("create user reader password 'p'");
  await fixture.admin.unsafe(`grant select on "${fixture.options.rangeTable}" to reader`);
  const pool = fixture.pool({ username: "reader", password: "p" });
  const { ranges } = await openStore(pool, { ...fixture.options, initSchema: false });
  assertEquals(await ranges.read("order"), { nextValue: 2n, sealed: false });
  const error = await assertRejects(() => ranges.reserve("order", 1), StoreError);
  assertEquals(error.kind, "permission");
});

for (const zone of ["America/New_York", "Asia/Kathmandu", "Pacific/Apia"]) {
  test(
    `the store clock is UTC in a session of ${zone}, and moves in a transaction`,
    async (fixture) => {
      const client = clientOf(fixture.pool({ max: 2 }));
      const now = sql`select ${h2Dialect.nowMillis} as now_ms`;
      const before = Date.now();
      const times = await client.transaction(function* () {
        const first = (yield now).rows[0]?.number("now_ms") ?? 0;
        let next = first;
        while (next === first) next = (yield now).rows[0]?.number("now_ms") ?? 0;
        return [first, next];
      }, call());
      const [first = 0, next = 0] = times;
      assert(first >= before - 2 && next > first && next <= Date.now() + 2, `${times}`);
    },
    `;INIT=set time zone '${zone}'`,
  );
}

for (const mode of ["MySQL", "MariaDB", "Oracle", "MSSQLServer", "DB2", "Strict", "Regular"]) {
  test(`the mode ${mode}, set at run time, changes nothing`, async (fixture) => {
    await fixture.admin.unsafe(`set mode ${mode}`);
    for (const fetchPlan of ["statement", "transaction"] as const) {
      const rangeTable = uniqueName("t");
      const options = { ...fixture.options, rangeTable, fetchPlan };
      await assertExact(await openStore(fixture.pool(), options));
    }
  });
}

test("case_insensitive_identifiers changes nothing but that", async (fixture) => {
  const { rangeTable } = fixture.options;
  await assertExact(await openStore(fixture.pool(), fixture.options));
  const options = { ...fixture.options, rangeTable: rangeTable.toUpperCase() };
  const store = await openStore(fixture.pool(), options);
  assertEquals(await store.ranges.reserve("order", 1), { start: 1n, end: 2n });
  assertEquals(await fixture.nextValue("order"), 2n);
}, ";CASE_INSENSITIVE_IDENTIFIERS=TRUE");

for (
  const [settings, words] of [
    [";IGNORECASE=TRUE", "varchar_ignorecase"],
    [";INIT=set collation english strength primary", "collation"],
  ] as const
) {
  test(`a key that is not exact is reported, with ${words}`, async (fixture) => {
    const { warnings } = await openStore(fixture.pool(), fixture.options);
    const columns = warnings.filter((text) => text.includes(words))
      .map((text) => /Column (\w+)/.exec(text)?.[1] ?? "");
    const texts = ["last_owner_key", "namespace", "namespace", "owner_key", "range_key"];
    assertEquals(columns.sort(), texts);
  }, settings);
}

test("a key of the type char is reported", async (fixture) => {
  const { rangeTable } = fixture.options;
  await fixture.admin.unsafe(
    `create table "${rangeTable}" (range_key char(255) primary key, next_value bigint not null)`,
  );
  const { warnings } = await openStore(fixture.pool(), fixture.options);
  assertEquals(warnings.filter((text) => text.includes("char ignores spaces")).length, 1);
});

test("sessions that are killed under load give no value twice, plan transaction", async (fixture) => {
  const stores = await Promise.all(
    Array.from({ length: 6 }, (_, index) =>
      openStore(fixture.pool(), {
        ...fixture.options,
        fetchPlan: "transaction",
        groupReserve: index % 2 === 0,
      })),
  );
  const drawn = new Map<string, Range[]>();
  let kills = 0;
  const kill = async () => {
    for (; kills < 20; kills++) {
      const before = count();
      const [session] = await fixture.admin.unsafe(
        "select session_id as id from information_schema.sessions " +
          "where session_id <> session_id() order by rand() limit 1",
      );
      if (session) await fixture.admin.unsafe(`select abort_session(${session.id})`);
      await until(() => count() > before + 20 || undefined, { what: "values between two kills" });
    }
  };
  const count = () => [...drawn.values()].reduce((sum, ranges) => sum + ranges.length, 0);
  const draw = async ({ ranges }: Store) => {
    while (kills < 20) {
      const key = `order ${kills}`;
      const range = await ranges.reserve(key, 1 + kills % 9).catch((error: unknown) => {
        assertInstanceOf(error, FencepostError);
        return settle();
      });
      if (range) drawn.set(key, [...drawn.get(key) ?? [], range]);
    }
  };
  await Promise.all([
    kill(),
    ...stores.flatMap((store) => Array.from({ length: 6 }, () => draw(store))),
  ]);
  for (const ranges of drawn.values()) assertDisjoint(ranges);
});

test("a next value of floating point is refused, for it could be given twice", async (fixture) => {
  const { rangeTable } = fixture.options;
  await fixture.admin.unsafe(
    `create table "${rangeTable}" ("range_key" varchar(255) primary key, "next_value" real, ` +
      `"sealed" boolean default false)`,
  );
  await assertRejects(
    () => openStore(fixture.pool(), { rangeTable }),
    ConfigurationError,
    "must be bigint",
  );
});

test("an integer of slots that has no 64 bits is refused, for two could become one", async (fixture) => {
  const pool = fixture.pool();
  await openStore(pool, fixture.options);
  const { slotTable, namespaceTable } = fixture.options;
  const columns = [
    ...["fence", "expires_at", "floor_ms", "ceiling_ms", "next_floor_ms"]
      .map((column) => [slotTable, column]),
    [namespaceTable, "tolerance_ms"],
  ];
  for (const [table, column] of columns) {
    for (const type of ["real", "integer", "numeric(20)"]) {
      await fixture.admin.unsafe(`alter table "${table}" alter column ${column} ${type}`);
      await assertRejects(
        () => openStore(pool, fixture.options),
        ConfigurationError,
        `column ${column} of table ${table} cannot be used`,
      );
    }
    await fixture.admin.unsafe(
      `alter table "${table}" alter column ${column} bigint default 0 not null`,
    );
  }
  await assertExact(await openStore(pool, fixture.options));
});

for (const option of ["slotTable", "namespaceTable"] as const) {
  test(`a temporary table is reported or refused, also as ${option}`, async (fixture) => {
    const { [option]: table, ...others } = fixture.options;
    await openStore(fixture.pool(), fixture.options);
    const pool = fixture.pool({ max: 1 });
    const open = () => openStore(pool, { ...others, [option]: "lost", exclusive: true });
    await pool.unsafe(`create local temporary table "lost" as select * from "${table}"`);
    await assertRejects(open, ConfigurationError, "table lost is temporary");
    await pool.unsafe(`drop table "lost"`);
    await pool.unsafe(`create global temporary table "lost" as select * from "${table}"`);
    const { warnings } = await open();
    assertEquals(warnings.filter((text) => text.includes("Table lost is temporary")).length, 1);
  });
}

test("a database in memory and a temporary table are reported, one of a connection is refused", async (fixture) => {
  const { warnings } = await openStore(fixture.pool(), fixture.options);
  assertEquals(warnings.map((text) => text.includes("in memory")), [true]);
  const pool = fixture.pool({ max: 1 });
  const rangeTable = uniqueName("t");
  const create = (kind: string) =>
    pool.unsafe(`create ${kind} temporary table "${rangeTable}" (
      range_key varchar(255) primary key, next_value bigint, sealed boolean default false
    )`);
  await create("local");
  const open = () => openStore(pool, { rangeTable, exclusive: true });
  await assertRejects(open, ConfigurationError, "temporary");
  await pool.unsafe(`drop table "${rangeTable}"`);
  await create("global");
  const global = await open();
  assertEquals(global.warnings.filter((text) => text.includes("temporary")).length, 1);
  await pool.unsafe(`drop table "${rangeTable}"`);
});

for (const { name, url } of servers) {
  Deno.test(`${name} › a write_delay other than 0 is reported`, async () => {
    const pool: postgres.Sql = postgres(driverUrl(`${url}_${uniqueName("delay")}`), {
      fetch_types: false,
      max: 2,
    });
    try {
      const options = { rangeTable: "t", initSchema: true };
      for (const [set, count] of [["", 1], ["set write_delay 0", 0], ["set write_delay 9", 1]]) {
        if (set) await pool.unsafe(String(set));
        const { warnings } = await openStore(pool, options);
        assertEquals(warnings.filter((text) => text.includes("write_delay")).length, count);
      }
    } finally {
      await pool.end();
    }
  });

  Deno.test(`${name} › a database that is read-only says so`, async () => {
    const database = driverUrl(`${url}_${uniqueName("readonly")}`);
    const pool: postgres.Sql = postgres(database, { fetch_types: false, max: 2 });
    await openStore(pool, { rangeTable: "t", initSchema: true });
    await pool.end();
    const readOnly: postgres.Sql = postgres(`${database};ACCESS_MODE_DATA=r`, {
      fetch_types: false,
      max: 2,
    });
    try {
      const { ranges } = await openStore(readOnly, { rangeTable: "t" });
      const error = await assertRejects(() => ranges.reserve("order", 1), StoreError);
      assertEquals(error.kind, "readOnly");
    } finally {
      await readOnly.end();
    }
  });
}

test("stores that add a column at once lose no row", async (fixture) => {
  for (let round = 0; round < 10; round++) {
    const rangeTable = uniqueName("t");
    await fixture.admin.unsafe(
      `create table "${rangeTable}" (range_key varchar(255) primary key, next_value bigint not null)`,
    );
    await fixture.admin.unsafe(`insert into "${rangeTable}" values ('order', 500)`);
    const stores = await Promise.all(
      Array.from(
        { length: 4 },
        () =>
          openStore(fixture.pool({ max: 2 }), { rangeTable, initSchema: true, timeoutMs: 20_000 }),
      ),
    );
    const drawn = await Promise.all(stores.map(({ ranges }) => ranges.reserve("order", 10)));
    assertContiguous(drawn, 500n);
  }
  const left = await fixture.admin.unsafe(
    "select table_name from information_schema.tables where table_name like '%altering'",
  );
  assertEquals(left.length, 0);
});

test("the dialect of PostgreSQL does not take H2 for PostgreSQL", async ({ pool, options }) => {
  await assertRejects(() => openPostgresql(pool(), options), ConfigurationError, "supports");
});

for (
  const [product, version, supported] of [
    ["H2", "2.0.202", true],
    ["H2", "2.1.214", true],
    ["H2", "3.0.0", true],
    ["H2", "1.4.200", false],
    ["PostgreSQL", "15.18", false],
  ] as const
) {
  Deno.test(`the dialect of H2 ${supported ? "supports" : "refuses"} ${product} ${version}`, () => {
    assertEquals(h2Dialect.supports({ product, version }), supported);
  });
}

for (
  const [code, message, kind] of [
    ["23505", "", "duplicate"],
    ["28000", "", "permission"],
    ["40001", "", "deadlock"],
    ["42S01", "Table exists", "duplicate"],
    ["42S02", "", "missingTable"],
    ["42S04", "", "missingTable"],
    ["42S21", "", "duplicate"],
    ["57014", "", "other"],
    ["90031", "IO Exception: No space left on device", "diskFull"],
    ["90079", "", "missingTable"],
    ["90096", "", "permission"],
    ["90097", "", "readOnly"],
    ["90098", "", "connection"],
    ["90131", "", "serialization"],
    ["HYT00", "", "serialization"],
    ["HY000", "General error", "other"],
    ["ECONNREFUSED", "", "connection"],
    ["CONNECTION_CLOSED", "", "connection"],
  ] as const
) {
  Deno.test(`the code ${code} of H2 is ${kind}`, () => {
    assertEquals(h2Dialect.classify(Object.assign(new Error(message), { code })), kind);
  });
}
