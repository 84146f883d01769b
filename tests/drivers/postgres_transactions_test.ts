import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import postgres from "postgres";
import { openStore, type PostgresqlOptions } from "../../dialects/postgresql/mod.ts";
import { ConfigurationError, FencepostError, ReserveConflictError, type Store } from "../../mod.ts";
import { askedServers } from "../servers/asked.ts";
import { tablesBeside, uniqueName } from "./ranges.ts";
import { assertExact } from "./stores.ts";
import { startProxy } from "../servers/proxy.ts";
import { until } from "../servers/until.ts";

interface Opened {
  readonly sql: postgres.Sql;
  readonly store: Store;
  readonly table: string;
  /** What the server has committed. */
  committed(): Promise<bigint | undefined>;
}

async function withStore(
  url: string,
  options: PostgresqlOptions & { max?: number; type?: "unlogged"; server?: string },
  work: (opened: Opened) => Promise<void>,
): Promise<void> {
  const { max = 1, type, server = url, ...rest } = options;
  const table = `ranges_${crypto.randomUUID().replaceAll("-", "_")}`;
  const admin = postgres(server, { onnotice: () => {}, max: 2 });
  const sql = postgres(url, { onnotice: () => {}, max, backoff: false });
  try {
    if (type) {
      await admin`
        create unlogged table ${admin(table)}
        (range_key text primary key, next_value bigint, sealed boolean not null default false)
      `;
    }
    const store = await openStore(sql, {
      ...tablesBeside(table),
      initSchema: true,
      exclusive: max === 1,
      ...rest,
    });
    const committed = async () => {
      const rows = await admin`select next_value from ${admin(table)} where range_key = ${"order"}`;
      return rows[0] && BigInt(rows[0].next_value);
    };
    await work({ sql, store, table, committed });
  } finally {
    await sql.end({ timeout: 0 });
    for (const one of Object.values(tablesBeside(table))) {
      await admin`drop table if exists ${admin(one)}`;
    }
    await admin.end();
  }
}

for (const { name, url } of askedServers().filter(({ name }) => name.startsWith("postgresql"))) {
  const test = (rule: string, work: () => Promise<void>) =>
    Deno.test(`${name} (postgres) › ${rule}`, work);

  for (const prepare of [true, false]) {
    test(`a commit that the server turned into a rollback gives no range, prepare ${prepare}`, () =>
      withStore(url, { fetchPlan: "transaction", prepare }, async ({ sql, store, committed }) => {
        await store.ranges.reserve("order", 10);
        for (let round = 0; round < 6; round++) {
          await sql.unsafe("deallocate all");
          for (let attempt = 0; attempt < 5; attempt++) {
            const range = await store.ranges.reserve("order", 10).catch((error) => {
              if (!(error instanceof FencepostError)) throw error;
            });
            if (range) assertEquals(await committed(), range.end);
          }
        }
      }));
  }

  test("connections that the server ends under load fail their calls, and no more", () =>
    withStore(url, { fetchPlan: "transaction", max: 4, groupReserve: false }, async (opened) => {
      const { sql, store, table } = opened;
      const admin = postgres(url, { onnotice: () => {}, max: 1 });
      const drawn: bigint[] = [];
      let failures = 0;
      let ended = false;
      const callers = Array.from({ length: 32 }, async () => {
        while (!ended) {
          await store.ranges.reserve("order", 1).then(
            ({ start }) => void drawn.push(start),
            (error) => {
              if (!(error instanceof FencepostError)) throw error;
              failures++;
            },
          );
        }
      });
      for (let round = 0; round < 6; round++) {
        const [before, failed] = [drawn.length, failures];
        await until(() => drawn.length > before + 64 || undefined, { what: "reserves" });
        await admin`
          select pg_terminate_backend(pid) from pg_stat_activity
          where query like ${`%${table}%`} and pid <> pg_backend_pid()
        `;
        await until(() => failures > failed || undefined, { what: "calls to fail" });
      }
      ended = true;
      await Promise.all(callers);
      await admin.end();
      assertEquals(new Set(drawn).size, drawn.length);
      await store.ranges.reserve("order", 1);
      await sql`select 1`;
    }));

  test("in a transaction begun by hand that has written, nothing is reserved", () =>
    withStore(url, {}, async ({ sql, store, table, committed }) => {
      await store.ranges.reserve("order", 10);
      await sql.unsafe("begin");
      await sql.unsafe(`insert into "${table}" (range_key, next_value) values ('other', 1)`);
      await assertRejects(() => store.ranges.reserve("order", 10), ReserveConflictError);
      await assertRejects(() => store.ranges.reserve("new", 10), ReserveConflictError);
      await sql.unsafe("rollback");
      assertEquals(await committed(), 11n);
      assertEquals(await store.ranges.reserve("order", 10), { start: 11n, end: 21n });
    }));

  test("in a transaction begun by hand that has written, no lease is written", () =>
    withStore(url, {}, async ({ sql, store, table }) => {
      const terms = { namespace: "workers", limit: 1, timeoutMs: 3_000 };
      const lease = await store.slots.acquire(terms);
      const state = async () => (await store.slots.inspect("workers"))?.slots;
      const before = await state();
      await sql.unsafe("begin");
      await sql.unsafe(`insert into "${table}" (range_key, next_value) values ('other', 1)`);
      const { ceilingMs } = lease;
      await store.slots.renew(lease);
      assertEquals(lease.ceilingMs, ceilingMs, "nothing is believed that was not written");
      await assertRejects(() => store.slots.release(lease), ConfigurationError);
      await sql.unsafe("rollback");
      assertEquals(await state(), before);
      await sql.unsafe("begin");
      await sql.unsafe(`insert into "${table}" (range_key, next_value) values ('other', 1)`);
      await assertRejects(
        () => store.slots.acquire({ ...terms, ownerKey: lease.ownerKey, maxAheadMs: 100_000 }),
        ConfigurationError,
      );
      await sql.unsafe("rollback");
      assertEquals(await state(), before);
    }));

  test("a client_encoding other than UTF8 is refused by name", async () => {
    const sql = postgres(url, { onnotice: () => {}, connection: { client_encoding: "LATIN1" } });
    await assertRejects(
      () => openStore(sql, { initSchema: true }),
      FencepostError,
      "client_encoding",
    );
    await sql.end();
  });

  test("an unlogged table is reported", () =>
    withStore(url, { type: "unlogged" }, ({ store }) => {
      assertEquals(store.warnings.filter((text) => text.includes("unlogged")).length, 1);
      return Promise.resolve();
    }));

  for (const option of ["slotTable", "namespaceTable"] as const) {
    test(`an unlogged table is reported, a temporary one refused, also as ${option}`, () =>
      withStore(url, {}, async ({ sql, table }) => {
        const tables = tablesBeside(table);
        const lost = uniqueName("lost");
        const open = () => openStore(sql, { ...tables, [option]: lost, exclusive: true });
        await sql.unsafe(`create unlogged table ${lost} (like "${tables[option]}" including all)`);
        const unlogged = (await open()).warnings.filter((text) => text.includes("unlogged"));
        assertEquals(unlogged.length, 1);
        assertStringIncludes(unlogged[0] ?? "", `Table ${lost} is unlogged`);
        await sql.unsafe(`drop table ${lost}`);
        await sql.unsafe(`create temporary table ${lost} (like "${tables[option]}" including all)`);
        await assertRejects(open, ConfigurationError, `table ${lost} is temporary`);
      }));
  }

  test("an integer of slots that has no 64 bits is refused, for two could become one", () =>
    withStore(url, {}, async ({ sql, table }) => {
      const tables = tablesBeside(table);
      const open = () => openStore(sql, { ...tables, exclusive: true });
      const columns = [
        ...["fence", "expires_at", "floor_ms", "ceiling_ms", "next_floor_ms"]
          .map((column) => [tables.slotTable, column]),
        [tables.namespaceTable, "tolerance_ms"],
      ];
      for (const [name, column] of columns) {
        for (const type of ["real", "numeric(20)", "integer"]) {
          await sql.unsafe(`alter table "${name}" alter column ${column} type ${type}`);
          await assertRejects(
            open,
            ConfigurationError,
            `column ${column} of table ${name} cannot be used`,
          );
        }
        await sql.unsafe(`alter table "${name}" alter column ${column} type bigint`);
      }
      await assertExact(await open());
    }));

  for (const type of ["real", "numeric(20, -1)", "numeric(20)", "integer"]) {
    test(`a next value of the type ${type} is refused, for it could be given twice`, async () => {
      const sql = postgres(url, { max: 2, onnotice: () => {} });
      const rangeTable = `ranges_${crypto.randomUUID().replaceAll("-", "_")}`;
      try {
        await sql.unsafe(
          `create table ${rangeTable} (range_key text primary key, next_value ${type} not null, ` +
            `sealed boolean not null default false)`,
        );
        await assertRejects(() => openStore(sql, { rangeTable }), ConfigurationError, "bigint");
      } finally {
        await sql`drop table if exists ${sql(rangeTable)}`;
        await sql.end();
      }
    });
  }

  test("a temporary table is refused, for every connection has its own", async () => {
    const sql = postgres(url, { max: 1, onnotice: () => {} });
    const rangeTable = `ranges_${crypto.randomUUID().replaceAll("-", "_")}`;
    try {
      await sql`
        create temporary table ${sql(rangeTable)}
        (range_key text primary key, next_value bigint, sealed boolean not null default false)
      `;
      await assertRejects(
        () => openStore(sql, { rangeTable, exclusive: true }),
        ConfigurationError,
        "temporary",
      );
    } finally {
      await sql.end();
    }
  });

  test("a pool of one works on after its connection failed under a group of calls", async () => {
    await using proxy = await startProxy(url);
    await withStore(proxy.url, { timeoutMs: 20_000, server: url }, async ({ sql, store }) => {
      for (let round = 0; round < 3; round++) {
        await store.ranges.reserve("order", 1);
        const cut = proxy.cutBefore("insert into");
        const calls = await Promise.allSettled(
          Array.from({ length: 6 }, () => store.ranges.reserve("order", 1)),
        );
        await cut;
        assertEquals(calls[0]?.status, "rejected");
        assertEquals(calls.slice(1).map(({ status }) => status), Array(5).fill("fulfilled"));
        assertEquals((await sql`select 1 as one`)[0]?.one, 1);
      }
    });
  });
}
