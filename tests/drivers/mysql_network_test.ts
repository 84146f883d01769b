import {
  assertEquals,
  assertGreater,
  assertInstanceOf,
  assertNotEquals,
  assertRejects,
} from "@std/assert";
import { createPool, type Pool } from "mysql2/promise";
import {
  Mysql2Client,
  mysqlDialect,
  type MysqlOptions,
  openStore,
  type Store,
} from "../../dialects/mysql/mod.ts";
import {
  Deadline,
  Identifier,
  openStore as openUrl,
  type Range,
  sql,
  StoreError,
  systemRuntime,
  TimeoutError,
} from "../../mod.ts";
import { HandRuntime, settle } from "../core/hand_runtime.ts";
import { type Proxy, startProxy } from "../servers/proxy.ts";
import { until } from "../servers/until.ts";
import { lockRow, type MysqlFixture, testEach } from "./mysql_fixture.ts";
import { assertDisjoint, settles, sorted } from "./ranges.ts";
import { assertStoreError } from "./stores.ts";

const timeoutMs = 5_000;
const plans = ["statement", "transaction"] as const;

/** A key that stands in no other packet than those that bind it. */
const key = "a key of the network's own";

/** A store behind a proxy. */
interface NetworkStore extends AsyncDisposable {
  readonly proxy: Proxy;
  readonly pool: Pool;
  readonly store: Store;
  /** How often the store repeated a statement. */
  retries(): number;
  /** How many turns a call takes. */
  turns(call: () => Promise<unknown>): Promise<number>;
}

/** Opens a store behind a proxy. */
async function openNetwork(
  fixture: MysqlFixture,
  options: MysqlOptions & { connectionLimit?: number } = {},
): Promise<NetworkStore> {
  const { connectionLimit = 4, ...rest } = options;
  const proxy = await startProxy(fixture.uri);
  const pool = createPool({ uri: proxy.url, connectionLimit });
  let retries = 0;
  const store = await openStore(pool, {
    ...fixture.options,
    timeoutMs,
    onEvent: ({ type }) => void (type === "retry" && retries++),
    ...rest,
  });
  return {
    proxy,
    pool,
    store,
    retries: () => retries,
    async turns(call) {
      proxy.resetTurns();
      await call();
      return proxy.turns;
    },
    async [Symbol.asyncDispose]() {
      proxy.heal();
      proxy.cut();
      await settle();
      await pool.end().catch(() => {});
      await proxy.close();
    },
  };
}

testEach(
  "a reserve on a connection that has run it before is one round trip, two before",
  async (fixture) => {
    await using network = await openNetwork(fixture, { connectionLimit: 1 });
    const { store, turns } = network;
    assertEquals(await turns(() => store.ranges.reserve("order", 1)), 2);
    for (const size of [1, 2n ** 40n, 7]) {
      assertEquals(await turns(() => store.ranges.reserve("order", size)), 1);
    }
    assertEquals(await turns(() => store.ranges.reserve("another", 1, { initialOffset: 5 })), 1);
    assertEquals(await turns(() => store.ranges.read("order")), 2);
    assertEquals(await turns(() => store.ranges.read("order")), 1);
    const group = () => Promise.all([1, 2, 3].map((size) => store.ranges.reserve("order", size)));
    assertEquals(await turns(group), 2);
  },
);

testEach("without prepared statements every reserve is one round trip", async (fixture) => {
  await using network = await openNetwork(fixture, { connectionLimit: 1, prepare: false });
  const { store, turns } = network;
  for (const key of ["order", "another", "order"]) {
    assertEquals(await turns(() => store.ranges.reserve(key, 1)), 1);
  }
});

testEach(
  "the plan transaction takes five round trips: it asks, begins, updates, reads, commits",
  async (fixture) => {
    await using network = await openNetwork(fixture, {
      connectionLimit: 1,
      fetchPlan: "transaction",
    });
    const { store, turns } = network;
    await store.ranges.reserve("order", 1);
    assertEquals(await turns(() => store.ranges.reserve("order", 1)), 5);
  },
);

testEach("a reserve that was cut off before the server had it takes nothing", async (fixture) => {
  await using network = await openNetwork(fixture);
  const { proxy, store } = network;
  const before = await store.ranges.reserve(key, 10);
  const cut = proxy.cutBefore(key);
  await assertStoreError(() => store.ranges.reserve(key, 10), "connection");
  await cut;
  assertEquals(await fixture.nextValue(key), before.end);
  assertEquals((await store.ranges.reserve(key, 10)).start, before.end);
});

testEach("a reserve whose reply was lost is a gap and is not repeated", async (fixture) => {
  for (const prepare of [true, false]) {
    await using network = await openNetwork(fixture, { prepare });
    const { proxy, store } = network;
    const before = await store.ranges.reserve(key, 10);
    const dropped = proxy.dropNextReply(prepare ? key : "last_insert_id");
    await assertStoreError(() => store.ranges.reserve(key, 10), "connection");
    await dropped;
    assertEquals(await fixture.nextValue(key), before.end + 10n);
    assertEquals((await store.ranges.reserve(key, 10)).start, before.end + 10n);
    assertEquals(network.retries(), 0);
  }
});

testEach("a commit whose reply was lost is a gap and is not repeated", async (fixture) => {
  await using network = await openNetwork(fixture, { fetchPlan: "transaction" });
  const { proxy, store } = network;
  const before = await store.ranges.reserve("order", 10);
  const dropped = proxy.dropNextReply("commit");
  await assertStoreError(() => store.ranges.reserve("order", 10), "connection");
  await dropped;
  assertEquals(await fixture.nextValue("order"), before.end + 10n);
  assertEquals((await store.ranges.reserve("order", 10)).start, before.end + 10n);
  assertEquals(network.retries(), 0);
});

testEach("a transaction that was cut off before its commit takes nothing", async (fixture) => {
  await using network = await openNetwork(fixture, { fetchPlan: "transaction" });
  const { proxy, store } = network;
  const before = await store.ranges.reserve("order", 10);
  const cut = proxy.cutBefore("commit");
  await assertStoreError(() => store.ranges.reserve("order", 10), "connection");
  await cut;
  await fixture.idle();
  assertEquals(await fixture.nextValue("order"), before.end);
  assertEquals((await store.ranges.reserve("order", 10)).start, before.end);
});

for (const fetchPlan of plans) {
  testEach(`cut while many draw, no value is handed out twice, ${fetchPlan}`, async (fixture) => {
    const drawn: Range[] = [];
    await using network = await openNetwork(fixture, { fetchPlan, groupReserve: false });
    const { proxy, store } = network;
    drawn.push(await store.ranges.reserve("order", 1));
    for (let round = 0; round < 4; round++) {
      proxy.delay(2);
      proxy.resetTurns();
      let broken = false;
      const errors: unknown[] = [];
      const callers = Array.from({ length: 64 }, async () => {
        while (!broken) {
          try {
            drawn.push(await store.ranges.reserve("order", 3, { timeoutMs: 2_000 }));
          } catch (error) {
            errors.push(error);
          }
        }
      });
      await until(() => proxy.turns > 40 * round || undefined, { what: "statements under way" });
      broken = true;
      proxy.cut();
      await settles(Promise.all(callers), "all calls");
      for (const error of errors) {
        if (error instanceof TimeoutError) continue;
        assertInstanceOf(error, StoreError);
        assertEquals(error.kind, "connection", String(error.cause));
      }
      assertGreater(errors.length, 0);
      proxy.delay(0);
      drawn.push(await settles(store.ranges.reserve("order", 3), "the pool to work again"));
    }
    assertEquals(network.retries(), 0);
    assertDisjoint(drawn);
  });

  testEach(
    `a network that swallows all ends every call by its deadline, ${fetchPlan}`,
    async (fixture) => {
      const clock = new HandRuntime();
      await using network = await openNetwork(fixture, {
        fetchPlan,
        groupReserve: false,
        runtime: clock,
      });
      const { proxy, store } = network;
      const drawn = [await store.ranges.reserve("order", 1)];
      proxy.blackhole("both");
      proxy.resetTurns();
      // More than the pool has connections: some never get one.
      const calls = Promise.allSettled<unknown>([
        ...Array.from({ length: 6 }, () => store.ranges.reserve("order", 1)),
        store.ranges.seal("other"),
        store.ranges.advance("other", 5),
        store.ranges.read("other"),
      ]);
      await until(() => proxy.turns > 0 || undefined, { what: "a statement under way" });
      clock.advance(timeoutMs);
      const { errors } = sorted(await settles(calls, "the calls to end"));
      assertEquals(errors.length, 9);
      for (const error of errors) assertInstanceOf(error, TimeoutError);
      proxy.heal();
      for (let count = 0; count < 8; count++) {
        drawn.push(await settles(store.ranges.reserve("order", 1), "the pool to work again"));
      }
      assertDisjoint(drawn);
    },
  );

  testEach(
    `a call that waits for a row lock ends at its deadline and hits no neighbour, ${fetchPlan}`,
    async (fixture) => {
      const clock = new HandRuntime();
      await using network = await openNetwork(fixture, {
        fetchPlan,
        runtime: clock,
        connectionLimit: 3,
      });
      const { pool, store } = network;
      const drawn = [await store.ranges.reserve("order", 10)];
      await using lock = await lockRow(fixture, "order");
      const call = store.ranges.reserve("order", 10);
      call.catch(() => {});
      await fixture.waiting(1);
      const neighbours = Array.from(
        { length: 2 },
        () =>
          pool.query(
            `update \`${fixture.table}\` set sealed = false where range_key = 'order'`,
          ),
      );
      const free = Promise.all(neighbours);
      free.catch(() => {});
      await fixture.waiting(3);
      clock.advance(timeoutMs);
      const error = await settles(assertRejects(() => call, TimeoutError), "the call to end");
      assertEquals(error.outcome, "unknown");
      await lock.free();
      assertEquals((await settles(free, "the neighbours")).length, 2);
      await fixture.idle();
      const next = await fixture.nextValue("order");
      if (fetchPlan === "transaction") {
        assertEquals(next, drawn[0]?.end, "the transaction was not rolled back");
      }
      for (let count = 0; count < 6; count++) {
        drawn.push(await settles(store.ranges.reserve("order", 10), "the pool to work again"));
      }
      assertDisjoint(drawn);
      assertEquals(drawn[1]?.start, next);
    },
  );

  testEach(
    `an aborted call ends with the reason, and the pool works on, ${fetchPlan}`,
    async (fixture) => {
      await using network = await openNetwork(fixture, { fetchPlan, connectionLimit: 1 });
      const { store } = network;
      const before = await store.ranges.reserve("order", 10);
      await using lock = await lockRow(fixture, "order");
      const abort = new AbortController();
      const call = store.ranges.reserve("order", 10, { signal: abort.signal });
      call.catch(() => {});
      await fixture.waiting(1);
      const reason = new Error("no longer wanted");
      abort.abort(reason);
      assertEquals(await settles(assertRejects(() => call), "the call to end"), reason);
      await lock.free();
      await fixture.idle();
      const after = await settles(store.ranges.reserve("order", 10), "the pool to work again");
      assertDisjoint([before, after]);
    },
  );
}

testEach("a server that answers slowly is waited for, until the deadline", async (fixture) => {
  await using network = await openNetwork(fixture, { connectionLimit: 1 });
  const { proxy, store } = network;
  const drawn = [await store.ranges.reserve("order", 1)];
  proxy.delay(30);
  drawn.push(await store.ranges.reserve("order", 1));
  const error = await assertRejects(
    () => store.ranges.reserve("order", 1, { timeoutMs: 20 }),
    TimeoutError,
  );
  assertEquals(error.outcome, "unknown");
  proxy.delay(0);
  drawn.push(await settles(store.ranges.reserve("order", 1), "the pool to work again"));
  assertDisjoint(drawn);
});

testEach("new connections that are refused are failures of the connection", async (fixture) => {
  await using network = await openNetwork(fixture);
  const { proxy, store } = network;
  proxy.refuse();
  proxy.cut();
  for (let count = 0; count < 3; count++) {
    await assertStoreError(() => store.ranges.reserve("order", 1), "connection");
  }
  proxy.heal();
  assertEquals(await store.ranges.reserve("order", 1), { start: 1n, end: 2n });
});

testEach(
  "a store that opened a URL closes although the server no longer answers",
  async (fixture) => {
    await using proxy = await startProxy(fixture.uri);
    const store = await openUrl(`${proxy.url}?connectTimeout=500`, {
      ...fixture.options,
      timeoutMs: 300,
    });
    await store.ranges.reserve("order", 1);
    proxy.blackhole("both");
    const calls = [0, 1, 2].map(() => store.ranges.reserve("order", 1).catch((error) => error));
    for (const error of await Promise.all(calls)) assertInstanceOf(error, TimeoutError);
    const opening = openUrl(`${proxy.url}?connectTimeout=500`, {
      ...fixture.options,
      timeoutMs: 300,
    });
    await assertRejects(() => settles(opening, "the opening"), TimeoutError);
    await settles(store.close(), "the store to close");
    await until(() => proxy.connections === 0 || undefined, { what: "the connections to go" });
  },
);

testEach(
  "of two transactions in a deadlock the victim is told, takes nothing, and may be repeated",
  async (fixture) => {
    await using network = await openNetwork(fixture);
    const { pool, store } = network;
    for (const key of ["a", "b", "c", "d"]) await store.ranges.reserve(key, 10);
    const client = new Mysql2Client(pool, { exclusive: false, prepare: true });
    const table = Identifier.parse(fixture.table, "rangeTable");
    const other = await pool.getConnection();
    await other.beginTransaction();
    // It has written more, so that it is not the victim.
    const write = (key: string) =>
      other.execute(
        `update \`${fixture.table}\` set next_value = next_value + 1 where range_key = ?`,
        [key],
      );
    for (const key of ["b", "c", "d"]) await write(key);
    const deadline = new Deadline(systemRuntime, { timeoutMs: 20_000 });
    const script = client.transaction(function* () {
      yield sql`update ${table} set next_value = next_value + ${5n} where range_key = ${"a"}`;
      yield sql`update ${table} set next_value = next_value + ${5n} where range_key = ${"b"}`;
    }, { name: "tck", deadline });
    const victim = settles(
      script.then(() => undefined, (error) => error),
      "the transaction to end",
    );
    await fixture.waiting(1);
    await write("a");
    assertEquals(mysqlDialect.classify(await victim), "deadlock");
    await other.rollback();
    other.release();
    await fixture.idle();
    for (const key of ["a", "b"]) assertEquals(await fixture.nextValue(key), 11n);
    assertNotEquals(await store.ranges.reserve("a", 1), undefined);
  },
);
