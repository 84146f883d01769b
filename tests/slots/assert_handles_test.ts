/**
 * What an assertion is given: only inside an open transaction does it keep others from the slot.
 *
 * @module
 */

import { assertRejects } from "@std/assert";
import { createPool } from "mysql2/promise";
import { DatabaseSync } from "node:sqlite";
// @ts-types="npm:@types/pg@^8.15.0"
import pg from "pg";
import postgres from "postgres";
import { openStore as openMysql } from "../../dialects/mysql/mod.ts";
import { openStore as openPostgresql } from "../../dialects/postgresql/mod.ts";
import { openStore as openSqlite } from "../../dialects/sqlite/mod.ts";
import { ConfigurationError, type SlotLease, type Store, type StoreOptions } from "../../mod.ts";
import { uniqueName } from "../drivers/ranges.ts";
import { askedServers } from "../servers/asked.ts";

const rule = "an assertion takes an open transaction of the driver's, and nothing else";

function options(): StoreOptions & { rangeTable: string } {
  return {
    rangeTable: uniqueName("r"),
    slotTable: uniqueName("s"),
    namespaceTable: uniqueName("n"),
    initSchema: true,
  };
}

async function leaseOf(store: Store): Promise<SlotLease> {
  return await store.slots.acquire({ namespace: "workers", limit: 1 });
}

async function refused(store: Store, handles: readonly unknown[]): Promise<void> {
  const lease = await leaseOf(store);
  for (const handle of handles) {
    await assertRejects(() => store.slots.assertHeld(lease, handle), ConfigurationError);
  }
  await store.slots.release(lease, { lastUsedMs: lease.floorMs - 1 });
}

function drop({ rangeTable, slotTable, namespaceTable }: StoreOptions): string {
  return `drop table if exists ${rangeTable}, ${slotTable}, ${namespaceTable}`;
}

for (const { name, url } of askedServers()) {
  if (name.startsWith("postgresql-")) {
    Deno.test(`${name} (pg) › ${rule}`, async () => {
      const pool = new pg.Pool({ connectionString: url, max: 2 });
      const client = await pool.connect();
      const given = options();
      try {
        const store = await openPostgresql(pool, given);
        await refused(store, [pool, client, { query: () => {} }, undefined]);
        const lease = await leaseOf(store);
        await client.query("begin");
        await store.slots.assertHeld(lease, client);
        await client.query("commit");
        await assertRejects(() => store.slots.assertHeld(lease, client), ConfigurationError);
      } finally {
        await client.query(drop(given));
        client.release();
        await pool.end();
      }
    });
    Deno.test(`${name} (postgres) › ${rule}`, async () => {
      const sql = postgres(url, { max: 2, fetch_types: false, onnotice: () => {} });
      const given = options();
      try {
        const store = await openPostgresql(sql, given);
        await refused(store, [sql, {}, null]);
        const lease = await leaseOf(store);
        await sql.begin(async (transaction) => await store.slots.assertHeld(lease, transaction));
      } finally {
        await sql.unsafe(drop(given));
        await sql.end();
      }
    });
  }
  if (/^(mysql|mariadb)-/.test(name)) {
    Deno.test(`${name} › ${rule}`, async () => {
      const pool = createPool({ uri: url.replace(/^mariadb:/, "mysql:"), connectionLimit: 2 });
      const connection = await pool.getConnection();
      const given = options();
      try {
        const store = await openMysql(pool, given);
        await refused(store, [pool, connection, {}, "connection"]);
        const lease = await leaseOf(store);
        await connection.beginTransaction();
        await store.slots.assertHeld(lease, connection);
        await connection.commit();
        await assertRejects(() => store.slots.assertHeld(lease, connection), ConfigurationError);
      } finally {
        await connection.query(drop(given));
        connection.release();
        await pool.end();
      }
    });
  }
  if (name === "sqlite") {
    Deno.test(`${name} › ${rule}`, async () => {
      const database = new DatabaseSync(":memory:");
      const store = await openSqlite(database, options());
      await refused(store, [database, {}, undefined]);
      const lease = await leaseOf(store);
      for (const begin of ["begin", "begin immediate"]) {
        database.exec(begin);
        await store.slots.assertHeld(lease, database);
        database.exec("commit");
      }
      database.close();
    });
  }
}
