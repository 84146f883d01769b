import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { maxValue, type ReserveRequest } from "../../core/sql/dialect.ts";
import {
  mariadbDialect,
  Mysql2Client,
  type Mysql2Query,
  mysqlDialect,
  openStore,
} from "../../dialects/mysql/mod.ts";
import {
  ConfigurationError,
  Deadline,
  Identifier,
  InTransactionError,
  InvalidArgumentError,
  type QueryOptions,
  type Session,
  sql,
  systemRuntime,
  TimeoutError,
} from "../../mod.ts";
import { HandRuntime, settle } from "../core/hand_runtime.ts";
import {
  FakeConnection,
  FakePool,
  header,
  idle,
  open,
  type Reply,
  serverError,
} from "./mysql2_fake.ts";

type Server = (query: Mysql2Query) => Reply | undefined | Promise<Reply>;

const table = Identifier.parse("ranges", "rangeTable");

function requestOf(key: string, size: bigint, initialOffset = 1n): ReserveRequest {
  return { table, key, size, initialOffset, nonce: 1n };
}

function call(timeoutMs = 5_000): QueryOptions {
  return { name: "range.reserve", deadline: new Deadline(systemRuntime, { timeoutMs }) };
}

function clientOver(server: Server, options: { prepare?: boolean } = {}) {
  const pool = new FakePool(server);
  const { prepare = true } = options;
  const client = new Mysql2Client(pool, { exclusive: false, prepare });
  const session: Session = { query: (statement) => client.query(statement, call()) };
  return { pool, client, session, connection: pool.only };
}

/** What a server of the test generates for the nonce 5: bit 63, the nonce from bit 48 on, the value. */
const tag = -(2n ** 63n) + 5n * 2n ** 48n;
const room = 2n ** 48n;

for (
  const [what, key, next] of [
    ["11 with the nonce of the statement", `${tag + 11n}`, 11n],
    ["the last value with room for a nonce", `${tag + room - 1n}`, room - 1n],
    ["the first value without room for a nonce", Number(room), room],
    ["a value that is safe", Number.MAX_SAFE_INTEGER, 2n ** 53n - 1n],
    ["a value that is not safe", "9007199254740993", 2n ** 53n + 1n],
    ["the largest value", "9223372036854775807", maxValue],
    ["a value with another nonce", `${tag + 2n ** 48n + 11n}`, undefined],
    ["a value whose nonce was lost", 11, undefined],
    ["no value with the nonce of the statement", `${tag}`, undefined],
    ["-1", -1, undefined],
    ["0", 0, undefined],
    ["0 in text", "0", undefined],
  ] as const
) {
  Deno.test(`of a generated key that is ${what}, a reserve takes ${next}`, async () => {
    const { session } = clientOver(() => header(key));
    const request = { ...requestOf("order", 10n), nonce: 5n };
    assertEquals(await mysqlDialect.reserve(session, request), next);
  });
}

Deno.test("a reserve is one statement, and every branch of it sets the generated key", async () => {
  for (const dialect of [mysqlDialect, mariadbDialect]) {
    const { connection, session } = clientOver(() => header(11));
    await dialect.reserve(session, { ...requestOf("order", 10n), nonce: 5n });
    const [{ sql: text, values, prepared } = { sql: "", values: [] }, ...more] = connection.sent;
    assertEquals([more.length, prepared], [0, true]);
    const bound = ["order", 11n, tag + 11n, maxValue - 10n, 10n, 10n, room, 10n, tag, 10n];
    assertEquals(values, bound);
    const branches = text.replace(/\s+/g, " ").split(/ values | then | else /).slice(1);
    assertEquals(branches.map((branch) => branch.includes("last_insert_id(")), [true, true, true]);
    assertStringIncludes(text, "when sealed = 0 and next_value <= cast(? as signed)");
    assertEquals([connection.released, connection.destroyed], [1, 0]);
  }
});

Deno.test("what a pool may have set for rows, types and placeholders is set for each statement", async () => {
  const queries: Mysql2Query[] = [];
  const { client } = clientOver((query) => {
    queries.push(query);
    return { names: ["n"], rows: [[1]] };
  });
  await client.query(sql`select ${1n} as n`, call());
  await client.query(sql`select 1 as n`, call());
  for (
    const { rowsAsArray, nestTables, typeCast, supportBigNumbers, namedPlaceholders } of queries
  ) {
    assertEquals([rowsAsArray, nestTables, supportBigNumbers, namedPlaceholders], [
      true,
      false,
      true,
      false,
    ]);
    assertEquals(typeCast({}, () => "as read"), "as read");
  }
  assertEquals(queries.length, 2);
});

Deno.test("without prepared statements a text holds its values as digits", async () => {
  const { connection, client } = clientOver(() => header(), { prepare: false });
  const key = "\\' or 1 = 1 -- é\u0000";
  await client.query(
    sql`update ${table} set a = ${key}, b = ${
      2n ** 62n
    }, c = ${-5n}, d = ${7}, e = ${true}, f = ${null}`,
    call(),
  );
  const [sent] = connection.sent;
  assertEquals(sent?.prepared, false);
  assertEquals(sent?.values, []);
  assertEquals(
    sent?.sql,
    "update `ranges` set a = _utf8mb4 X'5c27206f722031203d2031202d2d20c3a900', " +
      "b = (4611686018427387904), c = (-5), d = (7), e = 1, f = null",
  );
});

Deno.test("a text is made once, whatever its values are", async () => {
  const { connection, session } = clientOver(() => header(11));
  for (const key of ["a", "b"]) await mysqlDialect.reserve(session, requestOf(key, 10n));
  assertEquals(connection.sent[0]?.sql, connection.sent[1]?.sql);
});

Deno.test("a write inside somebody's transaction is refused, and its connection destroyed", async () => {
  const { connection, session } = clientOver(() => header(11, open));
  await assertRejects(
    () => mysqlDialect.reserve(session, requestOf("order", 10n)),
    InTransactionError,
  );
  assertEquals([connection.released, connection.destroyed], [0, 1]);
});

/** A server on which a transaction works, but for what a test says of some statement. */
function serverOf(strange: Readonly<Record<string, Reply>>): Server {
  const usual: Readonly<Record<string, Reply>> = {
    "do 0": header(0, idle),
    "start transaction": header(0, open),
    "update": header(0, open),
    "select": { names: ["n"], rows: [[7]] },
    "commit": header(0, idle),
    "rollback": header(0, idle),
  };
  return ({ sql: text }) => {
    const known = Object.keys(usual).find((start) => text.trim().startsWith(start)) ?? "";
    return strange[known] ?? usual[known];
  };
}

function* updateAndRead() {
  yield sql`update ${table} set n = ${1n}`;
  const { rows } = yield sql`select n from ${table} where n = ${1n}`;
  return rows[0]?.bigint("n");
}

Deno.test("a transaction asks, begins, works and commits", async () => {
  const { connection, client } = clientOver(serverOf({}));
  assertEquals(await client.transaction(updateAndRead, call()), 7n);
  assertEquals(connection.sent.map(({ sql: text }) => text.split(" ")[0]), [
    "do",
    "start",
    "update",
    "select",
    "commit",
  ]);
  assertEquals([connection.released, connection.destroyed], [1, 0]);
});

Deno.test("a transaction does not begin inside another, which it would commit", async () => {
  const { connection, client } = clientOver(serverOf({ "do 0": header(0, open) }));
  await assertRejects(() => client.transaction(updateAndRead, call()), InTransactionError);
  assertEquals(connection.sent.map(({ sql: text }) => text), ["do 0"]);
  assertEquals([connection.released, connection.destroyed], [0, 1]);
});

for (
  const [what, strange] of [
    ["was begun elsewhere", { "start transaction": header(0, idle) }],
    ["is not open where it writes", { update: header(0, idle) }],
    ["is open after its commit", { commit: header(0, open) }],
  ] as const
) {
  Deno.test(`a transaction that ${what} hands nothing out`, async () => {
    const { connection, client } = clientOver(serverOf(strange));
    await assertRejects(
      () => client.transaction(updateAndRead, call()),
      ConfigurationError,
      "proxy",
    );
    assertEquals([connection.released, connection.destroyed], [0, 1]);
  });
}

for (
  const [errno, harmless] of [[1205, true], [1213, true], [1053, false], [1290, false]] as const
) {
  Deno.test(`after the error ${errno} a transaction is rolled back`, async () => {
    const error = serverError(errno);
    const { connection, client } = clientOver(serverOf({ update: error }));
    assertEquals(await client.transaction(updateAndRead, call()).catch((error) => error), error);
    assertEquals(connection.sent.at(-1)?.sql, "rollback");
    assertEquals([connection.released, connection.destroyed], harmless ? [1, 0] : [0, 1]);
  });
}

Deno.test("a transaction that cannot be rolled back says why it failed, and loses its connection", async () => {
  const error = serverError(1205);
  const { connection, client } = clientOver(
    serverOf({ update: error, rollback: serverError(1927) }),
  );
  assertEquals(await client.transaction(updateAndRead, call()).catch((error) => error), error);
  assertEquals([connection.released, connection.destroyed], [0, 1]);
});

Deno.test("a connection that breaks may tell a statement twice, and is given back once", async () => {
  const { connection, client } = clientOver(() => serverError(1062));
  connection.callbacks = 2;
  await client.query(sql`select ${1n}`, call()).catch(() => {});
  assertEquals([connection.released, connection.destroyed], [1, 0]);
});

Deno.test("at its deadline a statement's connection is destroyed, and not put back later", async () => {
  const answer = Promise.withResolvers<Reply>();
  const { connection, client } = clientOver(() => answer.promise);
  const clock = new HandRuntime();
  const deadline = new Deadline(clock, { timeoutMs: 100 });
  const late = client.query(sql`select ${1n}`, { name: "x", deadline });
  late.catch(() => {});
  await settle();
  assertEquals(connection.destroyed, 0);
  clock.advance(100);
  assertEquals([connection.released, connection.destroyed], [0, 1]);
  answer.resolve(header(11));
  await late;
  assertEquals([connection.released, connection.destroyed], [0, 1]);
});

Deno.test("a connection that comes out of the pool after the deadline is put back", async () => {
  const { pool, connection, client } = clientOver(() => header());
  pool.waiting = [];
  const clock = new HandRuntime();
  const deadline = new Deadline(clock, { timeoutMs: 100 });
  const late = [
    client.query(sql`select ${1n}`, { name: "x", deadline }),
    client.transaction(updateAndRead, { name: "x", deadline }),
  ].map((promise) => assertRejects(() => promise, TimeoutError));
  clock.advance(100);
  for (const hand of pool.waiting) hand();
  for (const error of await Promise.all(late)) assertEquals(error.outcome, "nothing");
  assertEquals([connection.released, connection.destroyed, connection.sent.length], [2, 0, 0]);
});

/** What a server says of itself and of a session, which can be used unless the test says otherwise. */
function sessionRow(other: Readonly<Record<string, string | number>>): Reply {
  const row = {
    version: "9.7.4",
    autocommit: 1,
    completion_type: "NO_CHAIN",
    character_set_client: "utf8mb4",
    character_set_connection: "utf8mb4",
    ...other,
  };
  return { names: Object.keys(row), rows: [Object.values(row)] };
}

Deno.test("a connection whose character set is no longer the one that was checked is refused", async () => {
  const { connection, client } = clientOver(({ sql: text }) =>
    text.includes("version()") ? sessionRow({}) : header()
  );
  assertEquals(await client.server(call()), { product: "MySQL", version: "9.7.4" });
  for (
    const [charset, works] of [[224, true], [45, true], [255, true], [8, false], [33, false], [
      248,
      false,
    ]] as const
  ) {
    connection.config.charsetNumber = charset;
    const sent = connection.sent.length;
    const query = client.query(sql`select ${"é"}`, call());
    if (works) await query;
    else await assertRejects(() => query, ConfigurationError, "utf8mb4");
    assertEquals(connection.sent.length, sent + (works ? 1 : 0));
  }
});

for (
  const [name, value] of [
    ["autocommit", 0],
    ["completion_type", "CHAIN"],
    ["completion_type", "RELEASE"],
    ["character_set_client", "latin1"],
    ["character_set_connection", "utf8mb3"],
  ] as const
) {
  Deno.test(`a session whose ${name} is ${value} is refused by name`, async () => {
    const { client } = clientOver(() => sessionRow({ [name]: value }));
    await assertRejects(() => client.server(call()), ConfigurationError, name);
  });
}

for (
  const [text, product, version] of [
    ["10.11.19-MariaDB-0+deb12u1", "MariaDB", "10.11.19"],
    ["5.5.5-11.4.2-MariaDB-ubu2404", "MariaDB", "11.4.2"],
    ["9.7.4-2", "MySQL", "9.7.4"],
    ["8.0.mysql_aurora.3.08.0", "MySQL", "8.0"],
    ["8.0.11-TiDB-v8.5.1", "TiDB", "8.0.11"],
  ] as const
) {
  Deno.test(`a server that says ${text} is ${product}`, async () => {
    const { client } = clientOver(() => sessionRow({ version: text }));
    const server = await client.server(call());
    assertEquals(server, { product, version });
    assertEquals(mysqlDialect.supports(server), product === "MySQL");
    assertEquals(mariadbDialect.supports(server), product === "MariaDB");
  });
}

Deno.test("servers that lack what is needed are not supported", () => {
  for (
    const [version, supported] of [["5.7.44", false], ["8.0.17", true], ["10.0", true]] as const
  ) {
    assertEquals(mysqlDialect.supports({ product: "MySQL", version }), supported);
  }
  for (
    const [version, supported] of [["10.5.1", false], ["10.6.0", true], ["11.4", true]] as const
  ) {
    assertEquals(mariadbDialect.supports({ product: "MariaDB", version }), supported);
  }
});

Deno.test("a queryFormat that changes a text without placeholders is refused by name", async () => {
  const { connection, client } = clientOver(() => header(), { prepare: false });
  connection.config.queryFormat = (text) => text.replace(/:(\w+)/g, "?");
  await client.query(sql`select ${":key"}`, call());
  connection.config.queryFormat = (text) => `/* app */ ${text}`;
  await assertRejects(
    () => client.query(sql`select ${":key"}`, call()),
    ConfigurationError,
    "queryFormat",
  );
  assertEquals(connection.sent.length, 1);
});

Deno.test("what throws in the driver, or cannot be read, is the statement's error", async () => {
  const { connection, client } = clientOver(() => header("no number"));
  await assertRejects(() => client.query(sql`select ${1n}`, call()), SyntaxError);
  connection.execute = () => {
    throw new TypeError("the driver's");
  };
  await assertRejects(() => client.query(sql`select ${1n}`, call()), TypeError, "the driver's");
});

Deno.test("pools and connections of both APIs are known, and nothing else", async () => {
  const pool = new FakePool(() => serverError(1045));
  const connection = new FakeConnection(() => serverError(1045));
  const options = { exclusive: true };
  for (const target of [pool, { pool }, connection, { connection }]) {
    const call = openStore as (target: unknown, options: unknown) => Promise<unknown>;
    const error = await assertRejects(() => call(target, options), Error);
    assert("kind" in error && error.kind === "permission", String(error));
  }
  const others = [{}, { pool: {} }, { connection: {} }, { pool: null }, null, 5, () => {}, {
    getConnection() {},
    execute() {},
  }];
  for (const target of others) {
    const call = openStore as (target: unknown) => Promise<unknown>;
    await assertRejects(() => call(target), InvalidArgumentError, "a pool of mysql2");
  }
});

Deno.test("a single connection is refused unless it is exclusive", async () => {
  const connection = new FakeConnection(() => header());
  for (const target of [connection, { connection }]) {
    const call = openStore as (target: unknown) => Promise<unknown>;
    await assertRejects(() => call(target), ConfigurationError, "exclusive: true");
  }
});

Deno.test("on a single connection a transaction is waited out, and the write sent again", async () => {
  const statuses = [open, open, open, idle, idle];
  const connection = new FakeConnection(() => header(11, statuses.shift()));
  const client = new Mysql2Client(connection, { exclusive: true, prepare: true });
  const clock = new HandRuntime();
  const deadline = new Deadline(clock, { timeoutMs: 5_000 });
  const result = await clock.drive(
    client.query(sql`update ${table} set n = ${1n}`, { name: "x", deadline }),
  );
  assertEquals(result.generatedKey, 11n);
  assertEquals(connection.sent.map(({ sql: text }) => text.split(" ")[0]), [
    "update",
    "do",
    "do",
    "do",
    "update",
  ]);
  assertEquals([connection.released, connection.destroyed], [0, 0]);
});
