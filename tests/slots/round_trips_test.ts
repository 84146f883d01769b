/**
 * The round trips of slots, counted between driver and server.
 *
 * @module
 */

import { assertEquals, assertLessOrEqual } from "@std/assert";
import { createPool } from "mysql2/promise";
// @ts-types="npm:@types/pg@^8.15.0"
import pg from "pg";
import postgres from "postgres";
import type { Store, StoreOptions } from "../../mod.ts";
import { openStore as openMysql } from "../../dialects/mysql/mod.ts";
import { openStore as openPostgresql } from "../../dialects/postgresql/mod.ts";
import { uniqueName } from "../drivers/ranges.ts";
import { askedServers } from "../servers/asked.ts";
import { startProxy } from "../servers/proxy.ts";

interface Pool {
  open(options: StoreOptions): Promise<Store>;
  run(text: string): Promise<unknown>;
  end(): Promise<void>;
}

interface Driver {
  readonly name: string;
  /** How many turns an acquire takes that has never been there before. */
  readonly acquire: number;
  /** Whether it sends a statement before the one in front of it was answered: that saves turns. */
  readonly pipelines: boolean;
  connect(url: string, size: number): Pool;
}

const drivers: Readonly<Record<string, readonly Driver[]>> = {
  postgresql: [{
    name: "postgres",
    acquire: 1,
    pipelines: true,
    connect(url, size) {
      const sql = postgres(url, { max: size, fetch_types: false, onnotice: () => {} });
      return {
        open: (options) => openPostgresql(sql, { ...options, exclusive: true }),
        run: (text) => sql.unsafe(text),
        end: () => sql.end({ timeout: 1 }),
      };
    },
  }, {
    name: "pg",
    acquire: 1,
    pipelines: false,
    connect(url, size) {
      const pool = new pg.Pool({ connectionString: url, max: size });
      return {
        open: (options) => openPostgresql(pool, { ...options, exclusive: true }),
        run: (text) => pool.query(text),
        end: () => pool.end(),
      };
    },
  }],
  mysql: [{ name: "mysql2", acquire: 2, pipelines: false, connect: connectMysql }],
  mariadb: [{ name: "mysql2", acquire: 2, pipelines: false, connect: connectMysql }],
};

function connectMysql(url: string, size: number): Pool {
  const pool = createPool({ uri: url.replace(/^mariadb:/, "mysql:"), connectionLimit: size });
  return {
    open: (options) => openMysql(pool, options),
    run: (text) => pool.query(text),
    end: () => pool.end(),
  };
}

interface Behind {
  readonly store: Store;
  /** How many turns a call takes. */
  turns(call: () => Promise<unknown>): Promise<number>;
}

function testEach(
  rule: string,
  work: (behind: Behind, driver: Driver) => Promise<void>,
  { size = 1, which = () => true }: { size?: number; which?: (driver: Driver) => boolean } = {},
): void {
  for (const { name, url } of askedServers()) {
    for (const driver of drivers[name.replace(/-[\d.]+$/, "")]?.filter(which) ?? []) {
      Deno.test(`${name} › ${rule}, ${driver.name}`, async () => {
        await using proxy = await startProxy(url.replace(/^mariadb:/, "mysql:"));
        const tables = {
          rangeTable: uniqueName("r"),
          slotTable: uniqueName("s"),
          namespaceTable: uniqueName("n"),
        };
        const pool = driver.connect(proxy.url, size);
        try {
          const store = await pool.open({ ...tables, initSchema: true, timeoutMs: 60_000 });
          const turns = async (call: () => Promise<unknown>) => {
            proxy.resetTurns();
            await call();
            return proxy.turns;
          };
          await work({ store, turns }, driver);
        } finally {
          await pool.run(`drop table if exists ${Object.values(tables).join(", ")}`);
          await pool.end();
        }
      });
    }
  }
}

testEach("an acquire by a new owner is one round trip, or two, and renew and release one", async (
  { store, turns },
  driver,
) => {
  const terms = { namespace: "workers", limit: 64 };
  const first = await store.slots.acquire(terms);
  await store.slots.renew(first);
  await store.slots.release(first, { lastUsedMs: first.floorMs });
  for (let round = 0; round < 3; round++) {
    let lease = first;
    assertEquals(
      await turns(async () => lease = await store.slots.acquire(terms)),
      driver.acquire,
      "acquire",
    );
    assertEquals(await turns(() => store.slots.renew(lease)), 1, "renew");
    const lastUsedMs = lease.floorMs;
    assertEquals(await turns(() => store.slots.release(lease, { lastUsedMs })), 1, "release");
  }
});

testEach("an id takes no round trip, and its generator those of its hold", async (
  { store, turns },
  driver,
) => {
  const terms = { namespace: "events", limit: 64 };
  await (await store.snowflakeIds(terms)).close();
  await (await store.snowflakeIds(terms)).close();
  let ids = await store.snowflakeIds(terms);
  await ids.close();
  assertEquals(await turns(async () => ids = await store.snowflakeIds(terms)), driver.acquire);
  assertEquals(await turns(() => ids.nextMany(10_000)), 0);
  assertEquals(await turns(() => ids.close()), 1);
});

testEach("200 acquirers at once in a namespace of 256 take four round trips each at most", async (
  { store, turns },
) => {
  const terms = { namespace: "herd", limit: 256 };
  // Each connection prepares the statements before they are counted.
  const warm = await Promise.all(Array.from({ length: 40 }, () => store.slots.acquire(terms)));
  await Promise.all(warm.map((lease) => store.slots.release(lease)));
  const slots = new Set<number>();
  const count = await turns(async () => {
    const acquire = () => store.slots.acquire({ ...terms, maxAheadMs: 60_000 });
    for (const lease of await Promise.all(Array.from({ length: 200 }, acquire))) {
      slots.add(lease.slot);
    }
  });
  assertEquals(slots.size, 200);
  assertLessOrEqual(count / 200, 4, "mean round trips per acquire");
}, { size: 10, which: ({ pipelines }) => !pipelines });
