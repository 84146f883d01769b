/**
 * The adapter of `mssql` at its boundary: the real driver over a socket, and behind it the stand-in for
 * SQL Server in tests/tds, which reads the bytes and answers what a test wants.
 *
 * What only SQL Server itself can show: that it takes the statements and does with them what they say,
 * its locks, its plans, and when it really sends what the stand-in sends.
 *
 * @module
 */

// @ts-types="npm:@types/mssql@^12.3.0"
import mssql from "mssql";
import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { MssqlClient, openStore } from "../../dialects/sqlserver/mod.ts";
import {
  ConfigurationError,
  Deadline,
  InTransactionError,
  InvalidArgumentError,
  openStore as openAny,
  sql,
  type Store,
  StoreError,
  type StoreErrorKind,
  systemRuntime,
  TimeoutError,
} from "../../mod.ts";
import { HandRuntime, settle } from "../core/hand_runtime.ts";
import { freePort } from "../servers/temporary.ts";
import { until } from "../servers/until.ts";
import { startTdsDatabase, type TdsDatabase } from "../tds/database.ts";
import type { Answered, Asked } from "../tds/server.ts";
import { password, user } from "../tds/server.ts";
import { allWords } from "../words.ts";
import { assertDisjoint, settles } from "./ranges.ts";

const plans = ["statement", "transaction"] as const;
const edge = 2n ** 53n;
const max = 2n ** 63n - 1n;

/** A pool and what it is connected to. */
interface Fixture {
  readonly server: TdsDatabase;
  readonly pool: mssql.ConnectionPool;
  /** How the pool was set up. */
  readonly config: mssql.config;
}

type Settings = Partial<mssql.config>;

function configOf({ port }: { port: number }, settings: Settings): mssql.config {
  return {
    server: "127.0.0.1",
    port,
    user,
    password,
    database: "shop",
    validateConnection: false,
    ...settings,
    options: { encrypt: false, ...settings.options },
  };
}

async function withPool(
  settings: Settings,
  body: (fixture: Fixture) => Promise<void>,
): Promise<void> {
  await using server = await startTdsDatabase();
  const config = configOf(server, settings);
  const pool = new mssql.ConnectionPool(config);
  // As the driver asks of every application.
  pool.on("error", () => {});
  await pool.connect();
  try {
    await body({ server, pool, config });
  } finally {
    // A connection that nobody gives back would hold this up for good.
    let timer: ReturnType<typeof setTimeout> | undefined;
    const patience = new Promise((resolve) => timer = setTimeout(resolve, 10_000));
    await Promise.race([pool.close(), patience]);
    clearTimeout(timer);
  }
}

function test(rule: string, body: (fixture: Fixture) => Promise<void>, settings: Settings = {}) {
  Deno.test(`mssql › ${rule}`, () => withPool(settings, body));
}

const created = { initSchema: true };

/** Fails unless the store reads and writes values at the edges as they are. */
async function assertExact({ ranges }: Store): Promise<void> {
  assertEquals(await ranges.reserve("Order", 2), { start: 1n, end: 3n });
  const first = { initialOffset: edge - 1n };
  assertEquals(await ranges.reserve("edge", 2, first), { start: edge - 1n, end: edge + 1n });
  assertEquals(await ranges.reserve("edge", 1), { start: edge + 1n, end: edge + 2n });
  assertEquals(await ranges.advance("edge", max), max);
  assertEquals(await ranges.read("edge"), { nextValue: max, sealed: false });
  await ranges.seal("Order");
  assertEquals(await ranges.read("Order"), { nextValue: 3n, sealed: true });
  assertEquals(await ranges.read("order"), undefined);
}

/** Fails unless a call is rejected with a `StoreError` of a kind. */
async function assertKind(call: () => Promise<unknown>, kind: StoreErrorKind): Promise<StoreError> {
  const error = await assertRejects(call, StoreError);
  assertEquals(error.kind, kind);
  return error;
}

function isReserve({ text }: Asked): boolean {
  return text.includes("merge ");
}

/** Whether it reads what a transaction has just written. */
function isOwnRead(text: string): boolean {
  return /\n\s*select next_value\b(?!, sealed)/.test(text) && !text.includes("merge ");
}

/** Holds back the answers to what is asked for, until they are let go or cancelled. */
class Held {
  readonly waiting: Asked[] = [];
  #go: (() => void)[] = [];

  readonly hold = async (asked: Asked): Promise<undefined> => {
    this.waiting.push(asked);
    await new Promise<void>((resolve) => {
      this.#go.push(resolve);
      asked.signal.addEventListener("abort", () => resolve());
    });
  };

  letGo(): void {
    for (const go of this.#go.splice(0)) go();
  }

  async arrivals(count: number): Promise<void> {
    await until(() => this.waiting.length >= count || undefined, { what: "a statement to arrive" });
  }
}

test("a key travels as Unicode and integers as 64 bits, without loss", async ({ server, pool }) => {
  const store = await openStore(pool, created);
  const key = "Ordér 学😀'; drop table x; --";
  server.forget();
  await store.ranges.reserve(key, 1, { initialOffset: edge });
  await store.ranges.advance(key, max);
  const [reserve, advance] = server.asked;
  assertEquals(
    reserve?.parameters.slice(0, 4).map(({ type, value }) => [type, value]),
    [
      ["nvarchar(4000)", key],
      ["bigint", max - 1n],
      ["bigint", 1n],
      ["bigint", edge + 1n],
    ],
  );
  assertEquals(advance?.parameters.map(({ type, value }) => [type, value]), [
    ["bigint", max],
    ["nvarchar(4000)", key],
    ["bigint", 0n],
    ["bigint", max],
  ]);
  for (const { text } of server.asked) assert(!text.includes("drop table"), text);
  assertEquals(await store.ranges.read(key), { nextValue: max, sealed: false });
});

test("keys of any length share one text, so that they share a plan", async ({ server, pool }) => {
  const store = await openStore(pool, created);
  server.forget();
  for (const key of ["k", "字".repeat(255), "😀".repeat(127)]) await store.ranges.reserve(key, 1);
  const asked = server.asked.map(({ text, declaration }) => `${declaration} ${text}`);
  assertEquals([asked.length, new Set(asked).size], [3, 1]);
});

test("a text beyond 4,000 characters travels whole", async ({ server, pool }) => {
  const client = new MssqlClient(pool, { opened: false });
  const call = { name: "test", deadline: new Deadline(systemRuntime, { timeoutMs: 10_000 }) };
  for (const text of ["", "k".repeat(4_000), "字".repeat(4_001), "k".repeat(40_000)]) {
    server.interfere = ({ parameters: [parameter] }) => ({
      results: [{
        columns: [{ name: "length", type: "bigint" }],
        rows: [[parameter?.value === text ? BigInt(text.length) : -1n]],
      }],
    });
    const { rows } = await client.query(sql`select len(${text}) as length`, call);
    assertEquals(rows[0]?.number("length"), text.length);
    const type = text.length > 4_000 ? "nvarchar(max)" : "nvarchar(4000)";
    assertEquals(server.asked.at(-1)?.parameters[0]?.type, type);
  }
});

test("null, and numbers that are safe, can be bound", async ({ server, pool }) => {
  const client = new MssqlClient(pool, { opened: false });
  const call = { name: "test", deadline: new Deadline(systemRuntime, { timeoutMs: 10_000 }) };
  server.interfere = () => ({});
  await client.query(sql`update t set a = ${null}, b = ${-5}, c = ${false}, d = ${0n}`, call);
  assertEquals(server.asked[0]?.parameters.map(({ type, value }) => [type, value]), [
    ["nvarchar(4000)", null],
    ["bigint", -5n],
    ["bigint", 0n],
    ["bigint", 0n],
  ]);
  assertStringIncludes(server.asked[0]?.text ?? "", "c = cast(@p3 as bit)");
});

test("a reserve is one turn, and every other operation one a statement", async ({ server, pool }) => {
  const store = await openStore(pool, created);
  await store.ranges.reserve("order", 1);
  const turns = async (call: () => Promise<unknown>) => {
    server.forget();
    await call();
    return server.turns;
  };
  assertEquals(await turns(() => store.ranges.reserve("order", 1)), 1);
  assertEquals(await turns(() => store.ranges.reserve("new", 1)), 1);
  assertEquals(await turns(() => store.ranges.read("order")), 1);
  assertEquals(await turns(() => store.ranges.advance("order", 50)), 1);
  assertEquals(await turns(() => store.ranges.seal("order")), 1);
  const plan = await openStore(pool, { fetchPlan: "transaction" });
  await plan.ranges.reserve("new", 1);
  assertEquals(await turns(() => plan.ranges.reserve("new", 1)), 4);
});

test(
  "a pool that asks before it lends a connection takes a turn more",
  async ({ server, pool }) => {
    const store = await openStore(pool, created);
    server.forget();
    await store.ranges.reserve("order", 1);
    assertEquals([server.turns, server.asked[0]?.text], [2, "SELECT 1;"]);
  },
  { validateConnection: true },
);

Deno.test("mssql › a store of a URL takes one turn a reserve", async () => {
  await using server = await startTdsDatabase();
  const store = await openAny(server.url, created);
  server.forget();
  await store.ranges.reserve("order", 1);
  assertEquals(server.turns, 1);
  await store.close();
});

const settingsOfPools: Readonly<Record<string, Settings>> = {
  "the defaults": { validateConnection: undefined },
  "arrayRowMode": { arrayRowMode: true },
  "stream": { stream: true },
  "parseJSON": { parseJSON: true },
  "max: 1": { pool: { max: 1 } },
  "a requestTimeout": { requestTimeout: 20_000 },
  "options.useUTC off": { options: { useUTC: false } },
  "options.lowerCaseGuids": { options: { lowerCaseGuids: true } },
  "options.camelCaseColumns": { options: { camelCaseColumns: true } },
  "options.rowCollectionOnDone": { options: { rowCollectionOnDone: true } },
  "options.rowCollectionOnRequestCompletion": {
    options: { rowCollectionOnRequestCompletion: true },
  },
  "options.abortTransactionOnError": { options: { abortTransactionOnError: true } },
  "options.connectionIsolationLevel": { options: { connectionIsolationLevel: 4 } },
  "options.isolationLevel": { options: { isolationLevel: 5 } },
  "options.datefirst, dateFormat and language": {
    options: { datefirst: 1, dateFormat: "dmy", language: "Deutsch" },
  },
  "options.enableAnsiWarnings, enableArithAbort and enableAnsiNull off": {
    options: { enableAnsiWarnings: false, enableArithAbort: false, enableAnsiNull: false },
  },
  "options.enableQuotedIdentifier off": { options: { enableQuotedIdentifier: false } },
  "options.packetSize": { options: { packetSize: 512 } },
};

for (const [name, settings] of Object.entries(settingsOfPools)) {
  for (const fetchPlan of plans) {
    test(`a pool with ${name} reads and writes exactly, plan ${fetchPlan}`, async ({ pool }) => {
      await assertExact(await openStore(pool, { ...created, fetchPlan }));
    }, settings);
  }
}

const refusedSettings: Readonly<Record<string, mssql.IOptions & { useColumnNames?: boolean }>> = {
  columnNameReplacer: { columnNameReplacer: (name) => name.toUpperCase() },
  enableImplicitTransactions: { enableImplicitTransactions: true },
  tdsVersion: { tdsVersion: "7_1" },
  useColumnNames: { useColumnNames: true },
};

for (const [name, options] of Object.entries(refusedSettings)) {
  Deno.test(`mssql › the setting ${name} is refused by name`, async () => {
    const pool = new mssql.ConnectionPool(configOf({ port: await freePort() }, { options }));
    const error = await assertRejects(() => openStore(pool, created), ConfigurationError);
    assertStringIncludes(error.message, name);
  });
}

/** The handlers are set for all pools at once, and the driver's types do not know them. */
const handlers: Map<unknown, (value: never) => unknown> =
  (mssql as typeof mssql & { valueHandler: Map<unknown, (value: never) => unknown> }).valueHandler;

const changing: readonly (readonly [string, unknown, (value: never) => unknown])[] = [
  ["makes a bigint a number", mssql.BigInt, (value) => Number(value)],
  ["makes a bigint something else", mssql.BigInt, (value) => `${value} pieces`],
  ["makes a bit a word", mssql.Bit, (value) => value ? "yes" : "no"],
  ["makes a bit its opposite", mssql.Bit, (value) => !value],
  ["trims texts", mssql.NVarChar, (value) => String(value).trim()],
  ["changes the case of texts", mssql.NVarChar, (value) => String(value).toLowerCase()],
];

for (const [what, type, handler] of changing) {
  test(`a valueHandler that ${what} is refused by name`, async ({ pool }) => {
    handlers.set(type, handler);
    try {
      const error = await assertRejects(() => openStore(pool, created), ConfigurationError);
      assertStringIncludes(error.message, "valueHandler");
    } finally {
      handlers.delete(type);
    }
  });
}

test("a valueHandler that loses nothing is no reason to refuse", async ({ pool }) => {
  handlers.set(mssql.BigInt, (value) => BigInt(value));
  handlers.set(mssql.Bit, (value) => value ? 1 : 0);
  try {
    await assertExact(await openStore(pool, created));
  } finally {
    handlers.clear();
  }
});

test("types that the application registers change nothing that is bound", async ({ server, pool }) => {
  mssql.map.register(String, mssql.VarChar);
  mssql.map.register(Number, mssql.Float);
  mssql.map.register(Boolean, mssql.Int);
  try {
    await assertExact(await openStore(pool, created));
    const types = server.asked.flatMap(({ parameters }) => parameters.map(({ type }) => type));
    assertEquals([...new Set(types)].sort(), ["bigint", "nvarchar(4000)"]);
  } finally {
    mssql.map.register(String, mssql.NVarChar);
    mssql.map.register(Number, mssql.Int);
    mssql.map.register(Boolean, mssql.Bit);
  }
});

test("a requestTimeout of the pool ends no statement before its deadline", async (fixture) => {
  const { server, pool } = fixture;
  const store = await openStore(pool, created);
  const held = new Held();
  server.interfere = (asked) => held.hold(asked);
  const call = store.ranges.reserve("order", 1);
  await held.arrivals(1);
  // One of the application's own, sent later, whose time is over first.
  const { code } = await assertRejects(() => pool.request().query("select 1"), mssql.RequestError);
  assertEquals(code, "ETIMEOUT");
  const cancelled = server.attentions;
  held.letGo();
  assertEquals(await call, { start: 1n, end: 2n });
  assertEquals(server.attentions, cancelled);
}, { requestTimeout: 50 });

test("at the deadline the statement is cancelled, and no neighbour's", async ({ server, pool }) => {
  const clock = new HandRuntime();
  const store = await openStore(pool, { ...created, runtime: clock, groupReserve: false });
  const patient = await openStore(pool, { groupReserve: false });
  const held = new Held();
  server.interfere = (asked) => isReserve(asked) ? held.hold(asked) : undefined;
  server.forget();
  const neighbours = [patient.ranges.reserve("a", 1), patient.ranges.reserve("b", 1)];
  const call = store.ranges.reserve("order", 1);
  call.catch(() => {});
  await held.arrivals(3);
  clock.advance(5_000);
  const error = await settles(assertRejects(() => call, TimeoutError), "the call to end");
  assertEquals(error.outcome, "unknown");
  await until(() => server.attentions === 1 || undefined, {
    what: "the statement to be cancelled",
  });
  const cancelled = held.waiting.filter(({ signal }) => signal.aborted);
  assertEquals(cancelled.map(({ parameters }) => parameters[0]?.value), ["order"]);
  held.letGo();
  for (const range of await Promise.all(neighbours)) assertEquals(range, { start: 1n, end: 2n });
  server.interfere = () => undefined;
  assertEquals(await patient.ranges.reserve("order", 1), { start: 1n, end: 2n });
  assertEquals(server.attentions, 1);
});

test("a call that ended is not cancelled when its deadline passes", async ({ server, pool }) => {
  const clock = new HandRuntime();
  const store = await openStore(pool, { ...created, runtime: clock });
  await store.ranges.reserve("order", 1);
  const held = new Held();
  server.interfere = held.hold;
  const other = pool.request().query("select 1 as one");
  await held.arrivals(1);
  clock.advance(60_000);
  await settle();
  held.letGo();
  assertEquals((await other).recordset[0], { one: "1" });
  assertEquals(server.attentions, 0);
}, { pool: { max: 1 } });

for (const fetchPlan of plans) {
  test(
    `a pool whose connections are all taken ends a call by its deadline, ${fetchPlan}`,
    async (fixture) => {
      const { server, pool } = fixture;
      const clock = new HandRuntime();
      const store = await openStore(pool, { ...created, runtime: clock, fetchPlan });
      const before = await store.ranges.reserve("order", 1);
      const taken = pool.transaction();
      await taken.begin();
      server.forget();
      const call = store.ranges.reserve("order", 1);
      call.catch(() => {});
      await settle();
      clock.advance(5_000);
      await settles(assertRejects(() => call, TimeoutError), "the call to end");
      await taken.rollback();
      const returned = { what: "the connection to come back", deadlineMs: 10_000 };
      await until(() => pool.borrowed === 0 || undefined, returned);
      const next = await settles(store.ranges.reserve("order", 1), "the pool to work again");
      assertEquals(next.start, before.end);
      assertEquals(server.asked.filter(isReserve).length, fetchPlan === "statement" ? 1 : 0);
      assertEquals([...server.sessions].map(({ transactions }) => transactions), [0]);
    },
    { pool: { max: 1 } },
  );

  test(`a signal that aborts cancels the statement, plan ${fetchPlan}`, async ({ server, pool }) => {
    const store = await openStore(pool, { ...created, fetchPlan });
    const before = await store.ranges.reserve("order", 1);
    const held = new Held();
    server.interfere = ({ kind, ...rest }) =>
      kind === "call" ? held.hold({ kind, ...rest }) : undefined;
    const controller = new AbortController();
    const call = store.ranges.reserve("order", 1, { signal: controller.signal });
    call.catch(() => {});
    await held.arrivals(1);
    const reason = new Error("no longer wanted");
    controller.abort(reason);
    assertEquals(await assertRejects(() => call), reason);
    await until(() => server.attentions === 1 || undefined, { what: "it to be cancelled" });
    server.interfere = () => undefined;
    const after = await settles(store.ranges.reserve("order", 1), "the pool to work again");
    assertDisjoint([before, after]);
  });
}

test(
  "a transaction that missed its deadline is rolled back before others get its connection",
  async (fixture) => {
    const { server, pool } = fixture;
    const clock = new HandRuntime();
    const store = await openStore(pool, { ...created, runtime: clock, fetchPlan: "transaction" });
    const before = await store.ranges.reserve("order", 10);
    const held = new Held();
    server.interfere = (asked) => isOwnRead(asked.text) ? held.hold(asked) : undefined;
    server.forget();
    const call = store.ranges.reserve("order", 10);
    call.catch(() => {});
    await held.arrivals(1);
    clock.advance(5_000);
    await settles(assertRejects(() => call, TimeoutError), "the call to end");
    server.interfere = () => undefined;
    assertEquals((await store.ranges.reserve("order", 10)).start, before.end);
    const [first, ...rest] = server.asked.map(({ kind }) => kind);
    assertEquals(first, "begin");
    assertEquals(rest.slice(0, 4), ["call", "call", "rollback", "begin"]);
  },
  { pool: { max: 1 } },
);

test("a transaction whose rollback fails costs its connection, not a range", async (fixture) => {
  const { server, pool } = fixture;
  const store = await openStore(pool, { ...created, fetchPlan: "transaction" });
  const before = await store.ranges.reserve("order", 10);
  const failing: Answered = { error: { number: 50000, message: "no" } };
  server.interfere = ({ kind, text }) =>
    kind === "rollback" || isOwnRead(text) ? failing : undefined;
  await assertKind(() => store.ranges.reserve("order", 10), "other");
  server.interfere = () => undefined;
  await until(() => server.sessions.size === 0 || undefined, { what: "the connection to go" });
  assertEquals((await store.ranges.reserve("order", 10)).start, before.end);
}, { pool: { max: 1, idleTimeoutMillis: 600_000 } });

test("a transaction that the server rolled back by itself is over", async ({ server, pool }) => {
  const store = await openStore(pool, { ...created, fetchPlan: "transaction" });
  const before = await store.ranges.reserve("order", 10);
  let failures = 2;
  const error = { number: 1205, message: "chosen as the victim" };
  server.interfere = ({ text }) =>
    isOwnRead(text) && failures-- > 0 ? { error, rolledBack: true } : undefined;
  assertEquals((await store.ranges.reserve("order", 10)).start, before.end);
  assertEquals(failures, -1);
});

test("a transaction begins with the session's isolation level", async ({ server, pool }) => {
  const store = await openStore(pool, { ...created, fetchPlan: "transaction" });
  await store.ranges.reserve("order", 1);
  const begun = server.asked.filter(({ kind }) => kind === "begin");
  assertEquals(begun.map(({ isolation }) => isolation), [0]);
});

for (const fetchPlan of plans) {
  test(
    `a connection put back inside a transaction is refused, plan ${fetchPlan}`,
    async (fixture) => {
      const { server, pool } = fixture;
      const store = await openStore(pool, { ...created, fetchPlan });
      const before = await store.ranges.reserve("order", 1);
      await pool.request().batch("begin transaction");
      for (
        const call of [
          () => store.ranges.reserve("order", 1),
          () => store.ranges.seal("order"),
          () => store.ranges.advance("order", 500),
          () => store.ranges.read("order"),
          () => openStore(pool, created),
        ]
      ) await assertRejects(call, InTransactionError);
      // It is the application's to end, and nothing was written in it.
      assertEquals([...server.sessions].map(({ transactions }) => transactions), [1]);
      await pool.request().batch("rollback transaction");
      assertEquals((await store.ranges.reserve("order", 1)).start, before.end);
    },
    { pool: { max: 1 } },
  );

  test(`a session in implicit mode is refused, plan ${fetchPlan}`, async ({ server, pool }) => {
    const store = await openStore(pool, { ...created, fetchPlan });
    await store.ranges.reserve("order", 1);
    for (const session of server.sessions) session.implicit = true;
    await assertRejects(() => store.ranges.reserve("order", 1), InTransactionError);
    await assertRejects(() => store.ranges.seal("order"), InTransactionError);
    await assertRejects(() => openStore(pool, created), InTransactionError);
    for (const session of server.sessions) session.implicit = false;
    assertEquals(await store.ranges.read("order"), { nextValue: 2n, sealed: false });
  }, { pool: { max: 1 } });
}

for (const fetchPlan of plans) {
  test(`results and counts of a trigger's are passed over, plan ${fetchPlan}`, async (fixture) => {
    const { server, pool } = fixture;
    const store = await openStore(pool, { ...created, fetchPlan });
    server.around = (answered) => ({
      ...answered,
      counts: [7, ...answered.counts ?? [], 9],
      results: [
        { columns: [{ name: "next_value", type: "bigint" }], rows: [[1_000_000n]] },
        { columns: [{ name: "fencepost_count", type: "bigint" }], rows: [[5n]] },
        ...answered.results ?? [],
      ],
    });
    assertEquals(await store.ranges.reserve("new", 10), { start: 1n, end: 11n });
    assertEquals(await store.ranges.reserve("new", 10), { start: 11n, end: 21n });
    assertEquals(await store.ranges.advance("new", 5), 21n);
    await store.ranges.seal("new");
    assertEquals(await store.ranges.read("new"), { nextValue: 21n, sealed: true });
  });

  test(`with nocount, when the driver hears of no count, all works, plan ${fetchPlan}`, async (fixture) => {
    const { server, pool } = fixture;
    server.around = ({ results }) => ({ results });
    await assertExact(await openStore(pool, { ...created, fetchPlan }));
  });
}

const staged: readonly (readonly [number, StoreErrorKind])[] = [
  [208, "missingTable"],
  [229, "permission"],
  [3906, "readOnly"],
  [9002, "diskFull"],
  [2627, "duplicate"],
  [596, "connection"],
  [8115, "other"],
];

for (const [number, kind] of staged) {
  test(`the server's error ${number} is of the kind ${kind}, and its words are its own`, async (fixture) => {
    const { server, pool } = fixture;
    const store = await openStore(pool, created);
    const error = { number, message: "the server says s3cr3t" };
    server.interfere = (asked) => isReserve(asked) ? { error } : undefined;
    const { message, cause } = await assertKind(() => store.ranges.reserve("k3y", 77), kind);
    for (const part of ["s3cr3t", "k3y", "77"]) assert(!message.includes(part), message);
    assertInstanceOf(cause, mssql.RequestError);
    assertEquals(cause.number, number);
  });
}

test("a deadlock is repeated", async ({ server, pool }) => {
  const store = await openStore(pool, created);
  const error = { number: 1205, message: "chosen as the victim" };
  let failures = 3;
  server.interfere = (asked) => isReserve(asked) && failures-- > 0 ? { error } : undefined;
  assertEquals(await store.ranges.reserve("order", 1), { start: 1n, end: 2n });
});

for (const fetchPlan of plans) {
  test(`a connection that breaks under way ends the call, not the process, ${fetchPlan}`, async (fixture) => {
    const { server, pool } = fixture;
    const store = await openStore(pool, { ...created, fetchPlan });
    const before = await store.ranges.reserve("order", 1);
    server.interfere = ({ kind, session }) => {
      if (kind === "call") session.cut();
      return undefined;
    };
    const error = await assertKind(() => store.ranges.reserve("order", 1), "connection");
    assertEquals(error.statement, "range.reserve");
    server.interfere = () => undefined;
    const after = await settles(store.ranges.reserve("order", 1), "the pool to connect anew");
    assertDisjoint([before, after]);
  });
}

Deno.test("mssql › a pool of the library's without listeners survives broken connections", async () => {
  await using server = await startTdsDatabase();
  const store = await openStore(server.url, created);
  await store.ranges.reserve("order", 1);
  for (const session of server.sessions) session.cut();
  await until(() => server.sessions.size === 0 || undefined, { what: "the connections to go" });
  const next = await until(
    () => store.ranges.reserve("order", 1).catch(() => undefined),
    { what: "the pool to connect anew" },
  );
  assertEquals(next, { start: 2n, end: 3n });
  await store.close();
});

Deno.test("mssql › the library listens for failures of its own pools, and of no others", () => {
  const pool = () => new mssql.ConnectionPool({ server: "localhost" });
  for (const opened of [true, false]) {
    const target = pool();
    new MssqlClient(target, { opened });
    assertEquals(target.listenerCount("error"), opened ? 1 : 0);
  }
});

Deno.test("mssql › a wrong password is a matter of permission and stands in no error", async () => {
  await using server = await startTdsDatabase();
  const wrong = "wr0ng-s3cr3t";
  for (
    const open of [
      () => openStore(server.url.replace(password, wrong)),
      () =>
        openStore(server.url.replace(`${user}:${password}@`, ""), {
          username: user,
          password: wrong,
        }),
    ]
  ) {
    const error = await assertKind(open, "permission");
    assert(!allWords(error).includes(wrong));
  }
});

Deno.test("mssql › username and password are options, and go before those in the URL", async () => {
  await using server = await startTdsDatabase();
  for (const url of [server.url, server.url.replace(`${user}:${password}@`, "x:y@")]) {
    const store = await openStore(url, { username: user, password, initSchema: true });
    assertEquals((await store.ranges.reserve(url, 1)).start, 1n);
    await store.close();
  }
});

Deno.test("mssql › a server that cannot be reached is a failure of the connection", async () => {
  const url = `sqlserver://sa:s3cr3t@127.0.0.1:${await freePort()}/shop?encrypt=false`;
  const error = await assertKind(() => openStore(url), "connection");
  assert(!allWords(error).includes("s3cr3t"));
});

Deno.test("mssql › a store closes the pool that it opened, and none that it was given", async () => {
  await using server = await startTdsDatabase();
  const own = await openStore(server.url, created);
  await own.ranges.reserve("order", 1);
  await own.close();
  await until(() => server.sessions.size === 0 || undefined, { what: "the connections to go" });
  const pool = await new mssql.ConnectionPool(configOf(server, {})).connect();
  const store = await openStore(pool, created);
  await store.close();
  assert(pool.connected);
  await pool.close();
});

Deno.test("mssql › a store that is not opened closes the pool that it opened", async () => {
  await using server = await startTdsDatabase();
  await assertRejects(() => openStore(server.url), Error, "a table is missing");
  await until(() => server.sessions.size === 0 || undefined, { what: "the connections to go" });
});

Deno.test("mssql › a pool that is being opened is waited for, one that is not open is refused", async () => {
  await using server = await startTdsDatabase();
  const pool = new mssql.ConnectionPool(configOf(server, {}));
  const error = await assertRejects(() => openStore(pool, created), ConfigurationError);
  assertStringIncludes(error.message, "connect()");
  const connecting = pool.connect();
  await assertExact(await openStore(pool, created));
  await connecting;
  await pool.close();
});

test("a transaction, a request and a prepared statement are refused as targets", async ({ pool }) => {
  const open = openStore as (target: unknown) => Promise<unknown>;
  const transaction = pool.transaction();
  await transaction.begin();
  await assertRejects(() => open(transaction), InTransactionError);
  await transaction.rollback();
  await assertRejects(() => open(pool.request()), ConfigurationError, "ConnectionPool");
  const prepared = new mssql.PreparedStatement(pool);
  await assertRejects(() => open(prepared), ConfigurationError, "ConnectionPool");
  for (const target of [{}, () => {}, 5, null, undefined, { query: 1 }, mssql]) {
    await assertRejects(
      () => open(target),
      InvalidArgumentError,
      "a ConnectionPool of mssql or a URL",
    );
  }
});

Deno.test("mssql › a pool over the other driver is refused", async () => {
  // A stand-in: the other driver is a native module that needs ODBC. Its pool has no `_config`.
  const method = () => Promise.resolve();
  const other = { connected: true, connecting: false, connect: method, close: method, on: method };
  const target = { ...other, request: method, transaction: method };
  const open = openStore as (target: unknown) => Promise<unknown>;
  const error = await assertRejects(() => open(target), ConfigurationError);
  assertStringIncludes(error.message, "tedious");
});

test("a session runs in the application's transaction, whose rollback takes it back", async (fixture) => {
  const { pool } = fixture;
  const store = await openStore(pool, created);
  await store.ranges.reserve("order", 1);
  const client = new MssqlClient(pool, { opened: false });
  const transaction = pool.transaction();
  await transaction.begin();
  const session = client.session(transaction);
  const { affected } = await session.query(
    sql`update cosid_range set next_value = ${edge + 1n} where range_key = ${"order"}`,
  );
  assertEquals(affected, 1);
  const { rows } = await session.query(sql`select next_value from cosid_range`);
  assertEquals(rows[0]?.bigint("next_value"), edge + 1n);
  await transaction.rollback();
  assertEquals((await store.ranges.read("order"))?.nextValue, 2n);
  for (const other of [pool, {}, null, pool.request()]) {
    try {
      client.session(other);
      assert(false, "it is refused");
    } catch (error) {
      assertInstanceOf(error, ConfigurationError);
    }
  }
});

interface Weak {
  readonly what: string;
  readonly about: Partial<TdsDatabase["about"]>;
  /** What the warnings say; none if it is empty. */
  readonly says: readonly string[];
}

const weak: readonly Weak[] = [
  { what: "the script's own table on 2022", about: {}, says: [] },
  { what: "DELAYED_DURABILITY FORCED", about: { delayedDurability: "FORCED" }, says: ["FORCED"] },
  { what: "DELAYED_DURABILITY ALLOWED", about: { delayedDurability: "ALLOWED" }, says: [] },
  { what: "tempdb", about: { temporary: true }, says: ["tempdb"] },
  {
    what: "a table that is not kept",
    about: { durability: "SCHEMA_ONLY" },
    says: ["SCHEMA_ONLY"],
  },
  { what: "no word of durability", about: { durability: "" }, says: [] },
  { what: "2017", about: { version: "14.0.3465.1" }, says: ["2019"] },
  { what: "2019", about: { version: "15.0.2000.5" }, says: [] },
  {
    what: "Azure, whatever version it says it is",
    about: {
      banner: "Microsoft SQL Azure (RTM) - 12.0.2000.8",
      version: "12.0.2000.8",
      edition: 5n,
    },
    says: [],
  },
  ...["SQL_Latin1_General_CP1_CI_AS", "Latin1_General_100_CS_AS_KS_WS_SC", "Turkish_CI_AI"].map(
    (collation) => ({
      what: `the collation ${collation}`,
      about: { collation },
      says: [collation],
    }),
  ),
  ...["Latin1_General_BIN", "Latin1_General_100_BIN2", "Japanese_XJIS_140_BIN2"].map(
    (collation) => ({ what: `the collation ${collation}`, about: { collation }, says: [] }),
  ),
  { what: "a key of fewer than 255 characters", about: { bytes: 508n }, says: ["508 bytes"] },
  { what: "a key without a limit", about: { bytes: -1n }, says: [] },
  {
    what: "a key that is no Unicode",
    about: { type: "varchar", bytes: 765n },
    says: ["every character", "nvarchar"],
  },
  {
    what: "a key of UTF-8",
    about: { type: "varchar", collation: "Latin1_General_100_BIN2_UTF8", bytes: 765n },
    says: ["nvarchar"],
  },
  {
    what: "a table of slots that is not kept",
    about: { table: "cosid_slot", durability: "SCHEMA_ONLY" },
    says: ["cosid_slot has DURABILITY = SCHEMA_ONLY"],
  },
  {
    what: "a table of namespaces that is not kept",
    about: { table: "cosid_namespace", durability: "SCHEMA_ONLY" },
    says: ["cosid_namespace has DURABILITY = SCHEMA_ONLY"],
  },
  {
    what: "texts of slots that ignore case, but not what only the library makes",
    about: { table: "cosid_slot", collation: "Turkish_CI_AI" },
    says: ["Column namespace", "Column owner_key", "Column last_owner_key"],
  },
  {
    what: "texts of slots that are no Unicode",
    about: { table: "cosid_slot", type: "varchar", collation: "Latin1_General_100_BIN2_UTF8" },
    says: [
      "Column namespace of table cosid_slot is not nvarchar",
      "Column namespace of table cosid_slot may take different texts for equal: it holds 200 bytes",
      "Column owner_key",
      "Column last_owner_key",
    ],
  },
  { what: "a namespace of 100 characters", about: ofNamespaces({ bytes: 200n }), says: [] },
  { what: "a namespace of 99", about: ofNamespaces({ bytes: 198n }), says: ["198 bytes"] },
  { what: "a namespace of 50", about: ofNamespaces({ bytes: 100n }), says: ["100 bytes"] },
];

function ofNamespaces(about: Weak["about"]): Weak["about"] {
  return { table: "cosid_namespace", ...about };
}

for (const { what, about, says } of weak) {
  test(`what is weak is reported: ${what}`, async ({ server, pool }) => {
    Object.assign(server.about, { table: "cosid_range" }, about);
    const { warnings } = await openStore(pool, created);
    assertEquals(warnings.length, says.length, warnings.join("\n"));
    for (const part of says) {
      assert(warnings.some((one) => one.includes(part)), warnings.join("\n"));
    }
  });
}

test("a column that does not hold every integer is refused", async ({ server, pool }) => {
  for (
    const [table, column] of [
      ["cosid_range", "next_value"],
      ["cosid_slot", "fence"],
      ["cosid_namespace", "tolerance_ms"],
    ]
  ) {
    for (const integer of ["int", "float", "decimal"]) {
      Object.assign(server.about, { table, integer });
      await assertRejects(
        () => openStore(pool, created),
        ConfigurationError,
        `column ${column} of table ${table} cannot be used: its type is ${integer}`,
      );
    }
  }
  Object.assign(server.about, { integer: "bigint" });
  await openStore(pool, created);
});

test("a server below 2017 is not supported, nor is another product", async ({ server, pool }) => {
  for (
    const [banner, version] of [
      ["Microsoft SQL Server 2016 (SP3) - 13.0.6300.2 (X64)", "13.0.6300.2"],
      ["Babelfish for PostgreSQL 15.4", "12.0.2000.8"],
    ] as const
  ) {
    Object.assign(server.about, { banner, version });
    await assertRejects(() => openStore(pool, created), ConfigurationError, "none of the dialects");
  }
});
