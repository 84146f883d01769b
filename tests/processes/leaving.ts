/**
 * A process whose work is done while it has a live hold, which it neither releases nor ends: it closes
 * the pool that it has, if it has one, and comes to its end.
 *
 * @module
 */

import process from "node:process";
import { openStore, type Store } from "../../mod.ts";
import { openStore as openH2 } from "../../dialects/h2/mod.ts";
import { openStore as openMysql } from "../../dialects/mysql/mod.ts";
import { openStore as openPostgresql } from "../../dialects/postgresql/mod.ts";
import { batchSize, layout, readSettings, say, type Settings } from "./said.ts";

interface Opened {
  readonly store: Store;
  /** Closes what the application opened. */
  endPool(): Promise<void>;
}

if (import.meta.main) {
  process.on("exit", () => say({ type: "exit" }));
  const settings = readSettings();
  const { store, endPool } = await open(settings);
  const ids = await store.snowflakeIds({ ...settings.hold, layout });
  const { slot, fence } = ids.hold.lease;
  say({ type: "acquired", slot, fence });
  say({ type: "ids", ids: (await ids.nextMany(batchSize)).map(String) });
  await endPool();
}

async function open({ url, tables }: Settings): Promise<Opened> {
  const scheme = url.replace(/:.*/s, "");
  if (scheme === "sqlite") {
    return { store: await openStore(url, tables), endPool: () => Promise.resolve() };
  }
  if (scheme === "mysql" || scheme === "mariadb") {
    const { createPool } = await import("mysql2/promise");
    const pool = createPool(url.replace(/^mariadb:/, "mysql:"));
    return { store: await openMysql(pool, tables), endPool: () => pool.end() };
  }
  const { default: postgres } = await import("postgres");
  const isH2 = scheme === "h2";
  const pool = postgres(url.replace(/^h2:/, "postgres:"), { fetch_types: !isH2 });
  const store = await (isH2 ? openH2 : openPostgresql)(pool, tables);
  return { store, endPool: () => pool.end() };
}
