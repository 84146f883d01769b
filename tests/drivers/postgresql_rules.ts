/**
 * The rules that hold for every driver of PostgreSQL over a network.
 *
 * @module
 */

import {
  assert,
  assertEquals,
  assertGreater,
  assertInstanceOf,
  assertNotEquals,
  assertRejects,
} from "@std/assert";
import { openStore, postgresqlDialect, type Store } from "../../dialects/postgresql/mod.ts";
import { type Range, SchemaError, StoreClosedError, StoreError, TimeoutError } from "../../mod.ts";
import { HandRuntime, settle } from "../core/hand_runtime.ts";
import { type Proxy, startProxy } from "../servers/proxy.ts";
import { freePort } from "../servers/temporary.ts";
import { until } from "../servers/until.ts";
import { allWords } from "../words.ts";
import {
  lockRow,
  openFixture,
  type PostgresqlDriver,
  type PostgresqlFixture,
  postgresqlServers,
  urlOf,
} from "./postgresql_fixture.ts";
import { assertContiguous, assertDisjoint, settles, sorted } from "./ranges.ts";
import { assertExact, assertStoreError } from "./stores.ts";

const timeoutMs = 5_000;
const plans = ["statement", "transaction"] as const;

/** Registers a test for each server. */
export function testEach(
  driver: string,
  rule: string,
  body: (fixture: PostgresqlFixture) => Promise<void>,
): void {
  for (const { name, url } of postgresqlServers) {
    Deno.test(`${name} (${driver}) › ${rule}`, async () => {
      await using fixture = openFixture(url);
      await body(fixture);
    });
  }
}

/** Registers the rules for a driver. */
export function testDriver(driver: PostgresqlDriver): void {
  const test = (rule: string, body: (fixture: PostgresqlFixture) => Promise<void>) =>
    testEach(driver.name, rule, body);

  test("a store uses the application's pool and never closes it", async (fixture) => {
    await using pool = driver.open(fixture.url);
    const store = await openStore(pool.target, fixture.options);
    await assertExact(store);
    await store.close();
    await store.close();
    await assertRejects(() => store.ranges.reserve("order", 1), StoreClosedError);
    await assertRejects(
      () => openStore(pool.target, { rangeTable: `${fixture.table}_missing` }),
      SchemaError,
    );
    assertEquals((await pool.run("select 1 as one"))[0]?.one, 1);
    const other = await openStore(pool.target, { rangeTable: fixture.table });
    assertEquals(await other.ranges.reserve("order", 1), { start: 1n, end: 2n });
  });

  for (const fetchPlan of plans) {
    test(`the plan ${fetchPlan} is exact with and without prepared statements`, async (fixture) => {
      for (const prepare of [true, false]) {
        await using pool = driver.open(fixture.url);
        const store = await openStore(pool.target, { ...fixture.options, fetchPlan, prepare });
        await assertExact(store, `prepare ${prepare}`);
        await fixture.admin`delete from ${fixture.admin(fixture.table)}`;
      }
    });

    test(`many callers share a pool of two, plan ${fetchPlan}`, async (fixture) => {
      await using pool = driver.open(fixture.url, { max: 2 });
      const options = { ...fixture.options, fetchPlan, groupReserve: false };
      const store = await openStore(pool.target, options);
      const ranges = await Promise.all(
        Array.from({ length: 40 }, (_, index) => store.ranges.reserve("order", 1 + index % 3)),
      );
      assertContiguous(ranges, 1n);
      assertEquals(
        await fixture.nextValue("order"),
        ranges.map((range) => range.end).sort(last)[0],
      );
    });
  }

  test("a statement is prepared once on a connection", async (fixture) => {
    await using pool = driver.open(fixture.url, { max: 1 });
    const store = await openStore(pool.target, { ...fixture.options, exclusive: true });
    for (let count = 0; count < 50; count++) {
      await store.ranges.reserve(count % 2 ? "odd" : "even", 1 + count, { initialOffset: count });
    }
    assertEquals(await preparedInserts(), 1);

    async function preparedInserts(): Promise<number> {
      const rows = await pool.run("select statement from pg_prepared_statements");
      return rows.filter((row) => String(row.statement).includes(`insert into "${fixture.table}"`))
        .length;
    }
  });

  test("with prepare: false nothing of the store's is prepared on the server", async (fixture) => {
    await using pool = driver.open(fixture.url, { max: 1 });
    const options = { ...fixture.options, exclusive: true, prepare: false };
    const store = await openStore(pool.target, options);
    for (let count = 0; count < 5; count++) await store.ranges.reserve("order", 1);
    await store.ranges.seal("order");
    const rows = await pool.run("select statement from pg_prepared_statements where name <> ''");
    assertEquals(
      rows.filter((row) => /next_value|version\(\)/.test(String(row.statement))).length,
      0,
    );
  });

  test("a reserve on a connection that has run it before is one round trip", async (fixture) => {
    const { turns, store, close } = await counted(fixture, driver);
    await using _ = close;
    await store.ranges.reserve("order", 1);
    for (const size of [1, 2n ** 40n, 7]) {
      assertEquals(await turns(() => store.ranges.reserve("order", size)), driver.turns.warm);
    }
    assertEquals(await turns(() => store.ranges.reserve("another key", 1)), driver.turns.warm);
  });

  test("the first reserve on a connection takes the documented round trips", async (fixture) => {
    const { turns, store, close } = await counted(fixture, driver);
    await using _ = close;
    assertEquals(await turns(() => store.ranges.reserve("order", 1)), driver.turns.first);
  });

  test("a reserve without prepared statements takes the documented round trips", async (fixture) => {
    const { turns, store, close } = await counted(fixture, driver, { prepare: false });
    await using _ = close;
    await store.ranges.reserve("order", 1);
    assertEquals(await turns(() => store.ranges.reserve("order", 1)), driver.turns.unprepared);
  });

  test("a reserve that was cut off before the server had it takes nothing", async (fixture) => {
    await using network = await openNetwork(fixture, driver);
    const { proxy, store } = network;
    const before = await store.ranges.reserve("order", 10);
    const cut = proxy.cutBefore(`insert into "${fixture.table}"`);
    await assertStoreError(() => store.ranges.reserve("order", 10), "connection");
    await cut;
    assertEquals(await fixture.nextValue("order"), before.end);
    assertEquals((await network.eventually("order", 10)).start, before.end);
  });

  test("a reserve whose reply was lost is a gap and is not repeated", async (fixture) => {
    await using network = await openNetwork(fixture, driver);
    const { proxy, store } = network;
    const before = await store.ranges.reserve("order", 10);
    const dropped = proxy.dropNextReply(`insert into "${fixture.table}"`);
    await assertStoreError(() => store.ranges.reserve("order", 10), "connection");
    await dropped;
    assertEquals(await fixture.nextValue("order"), before.end + 10n);
    assertEquals((await network.eventually("order", 10)).start, before.end + 10n);
    assertEquals(network.retries(), 0);
  });

  test("a commit whose reply was lost is a gap and is not repeated", async (fixture) => {
    await using network = await openNetwork(fixture, driver, { fetchPlan: "transaction" });
    const { proxy, store } = network;
    const before = await store.ranges.reserve("order", 10);
    const dropped = proxy.dropNextReply(driver.commit);
    await assertStoreError(() => store.ranges.reserve("order", 10), "connection");
    await dropped;
    assertEquals(await fixture.nextValue("order"), before.end + 10n);
    assertEquals((await network.eventually("order", 10)).start, before.end + 10n);
    assertEquals(network.retries(), 0);
  });

  test("a transaction that was cut off before its commit takes nothing", async (fixture) => {
    await using network = await openNetwork(fixture, driver, { fetchPlan: "transaction" });
    const { proxy, store } = network;
    const before = await store.ranges.reserve("order", 10);
    const cut = proxy.cutBefore(driver.commit);
    await assertStoreError(() => store.ranges.reserve("order", 10), "connection");
    await cut;
    await fixture.idle();
    assertEquals(await fixture.nextValue("order"), before.end);
    assertEquals((await network.eventually("order", 10)).start, before.end);
  });

  for (const fetchPlan of plans) {
    test(`cut while many draw, no value is handed out twice, plan ${fetchPlan}`, async (fixture) => {
      const drawn: Range[] = [];
      for (let round = 0; round < 4; round++) {
        // Anew for each round: postgres.js loses connections that break inside a transaction.
        await using network = await openNetwork(fixture, driver, {
          fetchPlan,
          groupReserve: false,
        });
        const { proxy, store } = network;
        drawn.push(await store.ranges.reserve("order", 1));
        proxy.delay(2);
        proxy.resetTurns();
        let broken = false;
        const errors: unknown[] = [];
        const callers = Array.from({ length: 64 }, async () => {
          while (!broken) {
            try {
              drawn.push(await store.ranges.reserve("order", 3, { timeoutMs: 1_000 }));
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
          if (!(error instanceof TimeoutError)) {
            assertInstanceOf(error, StoreError);
            assertEquals(error.kind, "connection", String(error.cause));
          }
        }
        assertGreater(errors.length, 0);
        assertEquals(network.retries(), 0);
        proxy.delay(0);
        if (fetchPlan === "statement") drawn.push(await network.eventually("order", 3));
      }
      assertDisjoint(drawn);
    });
  }

  test("a network that swallows all ends every call by its deadline", async (fixture) => {
    const clock = new HandRuntime();
    await using network = await openNetwork(fixture, driver, {
      groupReserve: false,
      runtime: clock,
    });
    const { proxy, store } = network;
    const drawn = [await store.ranges.reserve("order", 1)];
    proxy.blackhole("both");
    proxy.resetTurns();
    const calls = Promise.allSettled(
      Array.from({ length: 4 }, () => store.ranges.reserve("order", 1)),
    );
    await until(() => proxy.turns > 0 || undefined, { what: "a statement under way" });
    clock.advance(timeoutMs);
    const { errors } = sorted(await settles(calls, "the calls to end"));
    assertEquals(errors.length, 4);
    for (const error of errors) assertInstanceOf(error, TimeoutError);
    proxy.heal();
    for (let count = 0; count < 8; count++) {
      drawn.push(await settles(store.ranges.reserve("order", 1), "the pool to work again"));
    }
    assertDisjoint(drawn);
  });

  for (const fetchPlan of plans) {
    test(
      `a call that waits for a row lock ends at its deadline and hits no neighbour, ${fetchPlan}`,
      async (fixture) => {
        const clock = new HandRuntime();
        await using network = await openNetwork(fixture, driver, {
          fetchPlan,
          runtime: clock,
          max: 3,
        });
        const { pool, store } = network;
        const drawn = [await store.ranges.reserve("order", 10)];
        await using lock = await lockRow(fixture, "order");
        const call = store.ranges.reserve("order", 10);
        call.catch(() => {});
        await fixture.waiting(1);
        const neighbours = Array.from(
          { length: 6 },
          () => pool.run(`select pg_advisory_xact_lock(${lock.advisory}) is null as locked`),
        );
        const free = Promise.all(neighbours);
        free.catch(() => {});
        await fixture.waiting(3);
        clock.advance(timeoutMs);
        const error = await settles(assertRejects(() => call, TimeoutError), "the call to end");
        assertEquals(error.outcome, "unknown");
        await lock.free();
        assertEquals((await settles(free, "the neighbours")).length, 6);
        await fixture.idle();
        const next = await fixture.nextValue("order");
        if (fetchPlan === "transaction") {
          assertEquals(next, drawn[0]?.end, "the transaction was not rolled back");
        }
        for (let count = 0; count < 12; count++) {
          drawn.push(await settles(store.ranges.reserve("order", 10), "the pool to work again"));
        }
        assertDisjoint(drawn);
        assertEquals(drawn[1]?.start, next);
        assertEquals(await fixture.nextValue("order"), drawn.at(-1)?.end);
      },
    );
  }

  test("a wrong password is a matter of permission and stands in no error", async (fixture) => {
    const right = "right-s3cr3t";
    const role = await fixture.role(right);
    await using _ = await requirePassword(fixture, role);
    const wrong = "wrong-s3cr3t";
    await using pool = driver.open(urlOf(fixture, { user: role, password: wrong }));
    const refused = await assertStoreError(
      () => openStore(pool.target, fixture.options),
      "permission",
    );
    assert(!allWords(refused).includes(wrong));
    await using good = driver.open(urlOf(fixture, { user: role, password: right }));
    await assertRejects(
      () => openStore(good.target, { rangeTable: fixture.table }),
      SchemaError,
    );
  });

  test("a server that cannot be reached is a failure of the connection", async (fixture) => {
    const url = new URL(urlOf(fixture, { user: "someone", password: "s3cr3t" }));
    url.port = String(await freePort());
    await using pool = driver.open(url.href);
    const error = await assertStoreError(() => openStore(pool.target), "connection");
    assert(!allWords(error).includes("s3cr3t"));
  });

  for (const level of ["serializable", "repeatable read"]) {
    test(`sessions that default to ${level} hand out no value twice`, async (fixture) => {
      const session = { default_transaction_isolation: level };
      await using first = driver.open(fixture.url, { session });
      await using second = driver.open(fixture.url, { session });
      const options = { ...fixture.options, groupReserve: false };
      const stores = [
        await openStore(first.target, options),
        await openStore(second.target, options),
      ];
      assertEquals(
        (await first.run("show transaction_isolation"))[0]?.transaction_isolation,
        level,
      );
      const calls = Array.from({ length: 32 }, (_, index) => stores[index % 2] as Store)
        .map((store) => store.ranges.reserve("order", 5, { timeoutMs: 20_000 }));
      const { values, errors } = sorted(await Promise.allSettled(calls));
      for (const error of errors) {
        assertInstanceOf(error, StoreError);
        assertEquals(error.kind, "serialization");
      }
      assertGreater(values.length, 0);
      // What the database rolled back took nothing.
      assertContiguous(values, 1n);
    });
  }

  test("a read-only server is told from other failures", async (fixture) => {
    await fixture.createTable();
    const session = { default_transaction_read_only: "on" };
    await using pool = driver.open(fixture.url, { session });
    // Nothing is missing, so nothing has to be created.
    const store = await openStore(pool.target, fixture.options);
    await assertStoreError(() => store.ranges.reserve("order", 1), "readOnly");
    await assertStoreError(() => store.ranges.seal("order"), "readOnly");
    assertEquals(await fixture.nextValue("order"), undefined);
  });

  for (
    const [code, kind] of [["40001", "serialization"], ["40P01", "deadlock"], [
      "55P03",
      "serialization",
    ]] as const
  ) {
    for (const fetchPlan of plans) {
      test(`what the server rolls back with ${code} is repeated, plan ${fetchPlan}`, async (fixture) => {
        await using pool = driver.open(fixture.url);
        const kinds: unknown[] = [];
        const store = await openStore(pool.target, {
          ...fixture.options,
          fetchPlan,
          onEvent: (event) => void (event.type === "retry" && kinds.push(event.kind)),
        });
        await store.ranges.reserve("order", 10);
        await using _ = await failing(fixture, { code, times: 2 });
        assertEquals(await store.ranges.reserve("order", 10), { start: 11n, end: 21n });
        assertEquals(kinds, [kind, kind]);
      });
    }
  }

  test("a lock that is not had within lock_timeout is asked for again", async (fixture) => {
    const session = { lock_timeout: "20ms" };
    await using pool = driver.open(fixture.url, { session });
    const retried = Promise.withResolvers<void>();
    const store = await openStore(pool.target, {
      ...fixture.options,
      onEvent: ({ type }) => void (type === "retry" && retried.resolve()),
    });
    await store.ranges.reserve("order", 10);
    await using lock = await lockRow(fixture, "order");
    const waiting = store.ranges.reserve("order", 10);
    await settles(retried.promise, "a retry");
    await lock.free();
    assertEquals(await waiting, { start: 11n, end: 21n });
  });

  for (const fetchPlan of plans) {
    test(`a full disk is told from other failures, and takes nothing, plan ${fetchPlan}`, async (fixture) => {
      await using pool = driver.open(fixture.url);
      const store = await openStore(pool.target, { ...fixture.options, fetchPlan });
      await store.ranges.reserve("order", 10);
      await using full = await failing(fixture, { code: "53100", times: 1_000 });
      await assertStoreError(() => store.ranges.reserve("order", 10), "diskFull");
      await assertStoreError(() => store.ranges.seal("order"), "diskFull");
      await full[Symbol.asyncDispose]();
      assertEquals(await store.ranges.reserve("order", 10), { start: 11n, end: 21n });
    });
  }

  test("a user without privileges is told from other failures", async (fixture) => {
    await fixture.createTable();
    const role = await fixture.role("password");
    await using pool = driver.open(urlOf(fixture, { user: role, password: "password" }));
    const store = await openStore(pool.target, { rangeTable: fixture.table });
    await assertStoreError(() => store.ranges.reserve("order", 1), "permission");
    await assertStoreError(() => store.ranges.read("order"), "permission");
  });

  test("a table that was dropped is told from other failures", async (fixture) => {
    await using pool = driver.open(fixture.url);
    const store = await openStore(pool.target, fixture.options);
    await store.ranges.reserve("order", 1);
    await fixture.admin`drop table ${fixture.admin(fixture.table)}`;
    for (let count = 0; count < 2; count++) {
      await assertStoreError(() => store.ranges.reserve("order", 1), "missingTable");
    }
    await fixture.createTable();
    assertEquals(await store.ranges.reserve("invoice", 1), { start: 1n, end: 2n });
  });

  test("the store clock is UTC whatever the session's time zone is", async (fixture) => {
    const session = { TimeZone: "Asia/Kathmandu" };
    await using pool = driver.open(fixture.url, { session });
    const store = await openStore(pool.target, fixture.options);
    await assertExact(store);
    assertEquals((await pool.run("show timezone"))[0]?.TimeZone, "Asia/Kathmandu");
    const [before] = await utcMs();
    const text = postgresqlDialect.nowMillis.strings.join("");
    const [row] = await pool.run(`select (${text})::text as now_ms`);
    const [after] = await utcMs();
    const now = BigInt(String(row?.now_ms));
    assert(before !== undefined && after !== undefined && before <= now && now <= after);

    async function utcMs(): Promise<bigint[]> {
      const rows = await fixture.admin`
        select floor(extract(epoch from clock_timestamp() at time zone 'UTC') * 1000)::bigint as ms
      `;
      return rows.map((row) => row.ms);
    }
  });

  test("a column that takes different texts for equal is reported", async (fixture) => {
    const { admin, table } = fixture;
    const collation = `${table}_ci`;
    await admin.unsafe(
      `create collation "${collation}" ` +
        `(provider = icu, locale = 'und-u-ks-level2', deterministic = false)`,
    );
    try {
      await admin.unsafe("create extension if not exists citext");
      for (
        const [type, reason] of [
          [`varchar(255) collate "${collation}"`, "nondeterministic"],
          ["char(255)", "char"],
          ["citext", "citext"],
        ] as const
      ) {
        await admin.unsafe(
          `create table "${table}" (range_key ${type} primary key, ` +
            `next_value bigint not null, sealed boolean not null default false)`,
        );
        await using pool = driver.open(fixture.url);
        const store = await openStore(pool.target, { rangeTable: table });
        const warnings = store.warnings.filter((warning) => warning.includes("range_key"));
        assertEquals(warnings.length, 1);
        assert(warnings[0]?.includes(reason) && warnings[0].includes(table), warnings[0]);
        await admin`drop table ${admin(table)}`;
      }
      await using pool = driver.open(fixture.url);
      const exact = await openStore(pool.target, fixture.options);
      assertEquals(exact.warnings.filter((warning) => warning.includes("range_key")), []);
    } finally {
      await admin`drop table if exists ${admin(table)}`;
      await admin.unsafe(`drop collation "${collation}"`);
    }
  });

  test("an aborted call ends with the reason, and the pool works on", async (fixture) => {
    await using network = await openNetwork(fixture, driver);
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
  });

  test("an error of the server's holds neither what it said nor what was bound", async (fixture) => {
    const { admin, table } = fixture;
    await using pool = driver.open(fixture.url);
    const store = await openStore(pool.target, fixture.options);
    await admin.unsafe(`alter table "${table}" add check (range_key <> 'secret-key')`);
    const error = await assertStoreError(() => store.ranges.reserve("secret-key", 1), "other");
    assert(!error.message.includes("secret-key"));
    assert(error.message.includes("range.reserve") && error.message.includes("23514"));
    assertNotEquals(error.cause, undefined);
  });

  test("a prefix of the pool's connections being gone is no reason to refuse", async (fixture) => {
    await using pool = driver.open(fixture.url, {
      max: 3,
      session: { application_name: fixture.application },
    });
    const store = await openStore(pool.target, { ...fixture.options, groupReserve: false });
    await Promise.all(Array.from({ length: 9 }, () => store.ranges.reserve("order", 1)));
    await fixture.admin`
      select pg_terminate_backend(pid) from pg_stat_activity
      where application_name = ${fixture.application}
    `;
    const next = await until(
      () => store.ranges.reserve("order", 1, { timeoutMs: 1_000 }).catch(() => undefined),
      { what: "the pool to connect anew" },
    );
    assert(next.start >= 10n);
  });

  test("openStore refuses what is neither a driver's object nor a URL", async () => {
    for (const target of [{}, () => {}, 5, null, undefined, { query: 1 }]) {
      const error = await assertRejects(() => openStore(target as string), Error);
      assert("code" in error && error.code === "INVALID_ARGUMENT", String(error));
    }
  });
}

function last(a: bigint, b: bigint): number {
  return a < b ? 1 : a > b ? -1 : 0;
}

interface Counted {
  readonly store: Store;
  readonly close: AsyncDisposable;
  turns(call: () => Promise<unknown>): Promise<number>;
}

/** A store of one caller whose turns are counted. */
async function counted(
  fixture: PostgresqlFixture,
  driver: PostgresqlDriver,
  options: { prepare?: boolean } = {},
): Promise<Counted> {
  const network = await openNetwork(fixture, driver, options);
  const { proxy, store } = network;
  return {
    store,
    close: network,
    async turns(call) {
      proxy.resetTurns();
      await call();
      return proxy.turns;
    },
  };
}

/** Makes the server fail the next updates of the table with an error of its own. */
async function failing(
  { admin, table }: PostgresqlFixture,
  { code, times }: { code: string; times: number },
): Promise<AsyncDisposable> {
  const name = `${table}_fail`;
  // A sequence counts on whatever is rolled back.
  await admin.unsafe(`
    create sequence "${name}";
    create function "${name}"() returns trigger language plpgsql as $$
      begin
        if nextval('"${name}"') <= ${times} then
          raise exception 'as the test asked' using errcode = '${code}';
        end if;
        return new;
      end
    $$;
    create trigger "${name}" before update on "${table}"
      for each row execute function "${name}"();
  `);
  let dropped: Promise<unknown> | undefined;
  return {
    async [Symbol.asyncDispose]() {
      dropped ??= admin.unsafe(`drop function "${name}" cascade; drop sequence "${name}"`);
      await dropped;
    },
  };
}

/** A store behind a proxy. */
export interface NetworkStore extends AsyncDisposable {
  readonly proxy: Proxy;
  readonly pool: ReturnType<PostgresqlDriver["open"]>;
  readonly store: Store;
  /** How often the store repeated a statement. */
  retries(): number;
  /** Reserves as soon as the pool has a connection again. */
  eventually(key: string, size: number): Promise<Range>;
}

/** Opens a store behind a proxy. */
export async function openNetwork(
  fixture: PostgresqlFixture,
  driver: PostgresqlDriver,
  options: Partial<Parameters<typeof openStore>[1]> & { max?: number } = {},
): Promise<NetworkStore> {
  const { max, ...rest } = options;
  const proxy = await startProxy(fixture.url);
  const pool = driver.open(proxy.url, {
    max,
    session: { application_name: fixture.application },
  });
  let retries = 0;
  const store = await openStore(pool.target, {
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
    async eventually(key, size) {
      return await until(async () => {
        try {
          return await store.ranges.reserve(key, size, { timeoutMs: 300 });
        } catch (error) {
          if (!(error instanceof TimeoutError)) {
            assertInstanceOf(error, StoreError);
            assertEquals(error.kind, "connection");
          }
          await settle();
        }
      }, { what: "a connection" });
    },
    async [Symbol.asyncDispose]() {
      proxy.heal();
      proxy.cut();
      await settle();
      await pool[Symbol.asyncDispose]();
      await proxy.close();
    },
  };
}

/** Makes the server ask a role for its password, where it trusts everybody. */
async function requirePassword(
  { admin }: PostgresqlFixture,
  role: string,
): Promise<AsyncDisposable> {
  const [row] = await admin<{ file: string; text: string }[]>`
    select f as file, pg_read_file(f) as text from current_setting('hba_file') as f
  `;
  if (row === undefined) throw new Error("Cannot find pg_hba.conf");
  const write = async (text: string) => {
    const [object] = await admin`select lo_from_bytea(0, convert_to(${text}, 'UTF8')) as id`;
    await admin`select lo_export(${object?.id}, ${row.file})`;
    await admin`select lo_unlink(${object?.id})`;
    await admin`select pg_reload_conf()`;
  };
  const rules = async () => {
    const [found] = await admin`
      select count(*)::integer as count from pg_hba_file_rules where user_name = array[${role}]
    `;
    return found?.count;
  };
  await write(`host all "${role}" all scram-sha-256\n${row.text}`);
  await until(async () => await rules() === 1 || undefined, { what: "the rule" });
  return {
    async [Symbol.asyncDispose]() {
      await write(row.text);
    },
  };
}
