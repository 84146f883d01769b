import { assert, assertEquals, assertGreaterOrEqual, assertRejects } from "@std/assert";
import postgres from "postgres";
import { askedServers } from "./asked.ts";
import { type Proxy, startProxy } from "./proxy.ts";
import { until } from "./until.ts";

/** A table of its own, reached directly and through a proxy by one connection. */
interface Fixture extends AsyncDisposable {
  readonly proxy: Proxy;
  readonly sql: postgres.Sql;
  insert(value: string): Promise<unknown>;
  /** Expects that the statement fails because its connection breaks. */
  breaks(statement: () => PromiseLike<unknown>): Promise<void>;
  /** What the table holds, not asked through the proxy. */
  values(): Promise<string[]>;
}

async function open(url: string): Promise<Fixture> {
  const options = { max: 1, fetch_types: false, backoff: false, onnotice: () => {} };
  const direct = postgres(url, options);
  const proxy = await startProxy(url);
  let closed = 0;
  const sql = postgres(proxy.url, { ...options, connect_timeout: 5, onclose: () => closed++ });
  const table = `proxy_${crypto.randomUUID().replaceAll("-", "")}`;
  await direct`create table ${direct(table)} (value text)`;
  return {
    proxy,
    sql,
    insert: async (value) => await sql`insert into ${sql(table)} values (${value})`,
    async breaks(statement) {
      const before = closed;
      await assertRejects(statement);
      // postgres.js never answers a statement that it gets after the socket's error and before its
      // close.
      await until(() => closed > before || undefined, { what: "the driver to close" });
    },
    async values() {
      const rows = await direct`select value from ${direct(table)} order by value`;
      return rows.map(({ value }) => String(value));
    },
    async [Symbol.asyncDispose]() {
      await sql.end({ timeout: 0 });
      await proxy.close();
      await direct`drop table ${direct(table)}`;
      await direct.end();
    },
  };
}

// A pooler keeps its connections to the server when a client goes, and is in the way of counting.
for (const { name, url } of askedServers().filter(({ name }) => name.startsWith("postgresql-"))) {
  const test = (rule: string, body: (fixture: Fixture) => Promise<void>) => {
    Deno.test(`${name} (postgres) › ${rule}`, async () => {
      await using fixture = await open(url);
      await body(fixture);
    });
  };

  test("a prepared statement takes one turn from its second execution on", async (fixture) => {
    await fixture.insert("a");
    fixture.proxy.resetTurns();
    await fixture.insert("b");
    assertEquals(fixture.proxy.turns, 1);
    await fixture.insert("c");
    assertEquals(fixture.proxy.turns, 2);
  });

  test("statements sent before the first reply are one turn", async ({ proxy, sql }) => {
    await Promise.all([sql`select 1`, sql`select 2`]);
    proxy.delay(50);
    proxy.resetTurns();
    const first = sql`select 1`.execute();
    await until(() => proxy.turns === 1 || undefined, { what: "the first turn" });
    await Promise.all([first, sql`select 2`]);
    assertEquals(proxy.turns, 1);
  });

  test("a goodbye is no turn", async ({ proxy, sql }) => {
    await sql`select 1`;
    proxy.resetTurns();
    await sql.end();
    await until(() => proxy.connections === 0 || undefined, { what: "the end" });
    assertEquals(proxy.turns, 0);
  });

  test("turns are the sum of all connections", async ({ proxy, sql }) => {
    await sql`select 1`;
    await using other = { sql: postgres(proxy.url, { max: 1, fetch_types: false }), ...disposal };
    await other.sql`select 1`;
    proxy.resetTurns();
    await Promise.all([sql`select 1`, other.sql`select 1`]);
    assertEquals(proxy.turns, 2);
    assertEquals(proxy.connections, 2);
  });

  test("a cut ends the statement in flight, and the next one connects anew", async (fixture) => {
    const { proxy, sql } = fixture;
    await sql`select 1`;
    proxy.resetTurns();
    const slept = fixture.breaks(() => sql`select pg_sleep(60)`);
    await until(() => proxy.turns > 0 || undefined, { what: "the statement" });
    proxy.cut();
    assertEquals(proxy.connections, 0);
    await slept;
    await fixture.insert("after");
    assertEquals(await fixture.values(), ["after"]);
  });

  test("a delay is added in both directions and can end", async ({ proxy, sql }) => {
    await sql`select 1`;
    proxy.delay(60);
    const delayed = performance.now();
    await sql`select 1`;
    assertGreaterOrEqual(performance.now() - delayed, 119);
    proxy.delay(0);
    await sql`select 1`;
    assertEquals((await sql`select 2 as two`)[0]?.two, 2);
  });

  test("a black hole to the client hides a reply, not its effect", async (fixture) => {
    await fixture.insert("a");
    fixture.proxy.blackhole("toClient");
    let settled = false;
    const lost = fixture.breaks(() => fixture.insert("b")).then(() => settled = true);
    const both = async () => (await fixture.values()).length === 2 || undefined;
    await until(both, { what: "the insert" });
    assert(!settled);
    assertEquals(fixture.proxy.connections, 1);
    fixture.proxy.heal();
    fixture.proxy.cut();
    await lost;
    await fixture.insert("c");
    assertEquals(await fixture.values(), ["a", "b", "c"]);
  });

  test("a black hole to the server hides even the end of a connection", async (fixture) => {
    const { proxy, sql } = fixture;
    const [row] = await sql`select pg_backend_pid() as pid`;
    proxy.blackhole("toServer");
    await sql.end({ timeout: 0 });
    const backends = async () => {
      await using other = { sql: postgres(url, { max: 1, fetch_types: false }), ...disposal };
      return await other.sql`select 1 from pg_stat_activity where pid = ${row?.pid}`;
    };
    await until(() => proxy.connections === 0 || undefined, { what: "the end of the client" });
    assertEquals((await backends()).length, 1);
    proxy.heal();
    await until(async () => (await backends()).length === 0 || undefined, { what: "the backend" });
  });

  test("a proxy that refuses resets new connections until it is healed", async (fixture) => {
    fixture.proxy.refuse();
    await fixture.breaks(() => fixture.insert("a"));
    fixture.proxy.heal();
    await fixture.insert("b");
    assertEquals(await fixture.values(), ["b"]);
  });

  test("a dropped reply is that of a committed statement", async (fixture) => {
    const dropped = fixture.proxy.dropNextReply("insert into");
    await fixture.breaks(() => fixture.insert("first execution"));
    await dropped;
    assertEquals(await fixture.values(), ["first execution"]);
    await fixture.insert("not dropped");
    assertEquals((await fixture.values()).length, 2);
  });

  test("a reply can be dropped when only the statement's name is sent", async (fixture) => {
    await fixture.insert("a");
    const dropped = fixture.proxy.dropNextReply("insert into");
    await fixture.sql`select 1`;
    await fixture.breaks(() => fixture.insert("b"));
    await dropped;
    assertEquals(await fixture.values(), ["a", "b"]);
  });

  test("the replies before a dropped one are delivered", async (fixture) => {
    await fixture.insert("a");
    await fixture.sql`select 3 as three`;
    fixture.proxy.delay(20);
    const dropped = fixture.proxy.dropNextReply("insert into");
    const before = fixture.sql`select 3 as three`.then(([row]) => row?.three);
    await fixture.breaks(() => fixture.insert("b"));
    await dropped;
    assertEquals(await before, 3);
    assertEquals(await fixture.values(), ["a", "b"]);
  });

  test("a statement is hit by what is bound to it", async (fixture) => {
    await fixture.insert("a");
    const dropped = fixture.proxy.dropNextReply("größer");
    await fixture.insert("b");
    await fixture.breaks(() => fixture.insert("größer"));
    await dropped;
    assertEquals(await fixture.values(), ["a", "b", "größer"]);
  });

  test("the reply to a commit is dropped after the commit", async (fixture) => {
    const { proxy, sql } = fixture;
    const dropped = proxy.dropNextReply("commit");
    await fixture.breaks(() => sql.begin((transaction) => transaction`select 1`));
    await dropped;
    await fixture.insert("after");
    assertEquals(await fixture.values(), ["after"]);
  });

  test("a statement that is cut off before is never executed", async (fixture) => {
    const first = fixture.proxy.cutBefore("insert into");
    await fixture.breaks(() => fixture.insert("first execution"));
    await first;
    await fixture.insert("a");
    const later = fixture.proxy.cutBefore("insert into");
    await fixture.breaks(() => fixture.insert("later execution"));
    await later;
    await fixture.insert("b");
    assertEquals(await fixture.values(), ["a", "b"]);
  });

  test("a statement in pieces is hit as a whole one is", async (fixture) => {
    await fixture.insert("a");
    const long = "x".repeat(300_000);
    const cut = fixture.proxy.cutBefore("xy");
    await fixture.breaks(() => fixture.insert(`${long}y`));
    await cut;
    const dropped = fixture.proxy.dropNextReply("xz");
    await fixture.breaks(() => fixture.insert(`${long}z`));
    await dropped;
    assertEquals(await fixture.values(), ["a", `${long}z`]);
  });

  test("what never happened before the proxy closed rejects", async ({ proxy }) => {
    const never = proxy.cutBefore("never sent");
    await proxy.close();
    await assertRejects(() => never, Error, "never sent");
  });
}

const disposal = {
  async [Symbol.asyncDispose](this: { sql: postgres.Sql }): Promise<void> {
    await this.sql.end();
  },
};
