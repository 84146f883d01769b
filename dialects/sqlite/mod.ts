/**
 * SQLite: embedded, for one machine. Several processes may use one file.
 *
 * @example A file that the library opens and closes
 * ```ts
 * import { openStore } from "@fencepost/store/sqlite";
 *
 * await using store = await openStore("sqlite::memory:", { initSchema: true });
 * console.log(await store.ranges.reserve("order", 100)); // { start: 1n, end: 101n }
 * ```
 *
 * @example A connection of the application's
 * ```ts
 * import { DatabaseSync } from "node:sqlite";
 * import { openStore } from "@fencepost/store/sqlite";
 *
 * const database = new DatabaseSync(":memory:");
 * const store = await openStore(database, { initSchema: true });
 * console.log(await store.ranges.reserve("order", 100)); // { start: 1n, end: 101n }
 * database.close(); // the store never closes what it was given
 * ```
 *
 * @module
 */

import { DriverMissingError } from "../../core/errors.ts";
import { refuse } from "../../core/arguments.ts";
import { driverError } from "../../core/sql/database.ts";
import {
  checkStoreOptions,
  openStoreOver,
  type Store,
  type StoreOptions,
} from "../../core/store.ts";
import { sqliteDialect } from "./dialect.ts";
import { isSqliteDatabase, NodeSqliteClient, type SqliteDatabase } from "./node_sqlite.ts";

export { sqliteDialect };
export { NodeSqliteClient };
export type { SqliteDatabase, SqliteStatement } from "./node_sqlite.ts";
export type { Store, StoreOptions } from "../../core/store.ts";

/**
 * Opens a store on SQLite.
 *
 * A file that is opened from a URL uses write-ahead logging with `synchronous = full`, and no busy
 * timeout, which would stop the event loop: the store waits for locks by itself.
 *
 * @param target A connection of `node:sqlite`, which the store does not close, or a URL, whose
 * connection it does: `sqlite:path` or `sqlite::memory:`.
 * @param options See `StoreOptions`.
 * @throws {InvalidArgumentError} If an argument is not allowed.
 * @throws {ConfigurationError} If the driver or its version cannot be used.
 * @throws {DriverMissingError} If the runtime has no `node:sqlite`.
 * @throws {SchemaError} If a table is missing, or lacks a column.
 * @throws {StoreError} If the database cannot be opened or fails.
 */
export async function openStore(
  target: string | SqliteDatabase,
  options: StoreOptions = {},
): Promise<Store> {
  checkStoreOptions(options);
  const client = await sqliteClient(target);
  return await openStoreOver(client, { ...options, builtIn: [sqliteDialect] });
}

async function sqliteClient(target: string | SqliteDatabase): Promise<NodeSqliteClient> {
  if (typeof target !== "string") {
    if (!isSqliteDatabase(target)) {
      refuse("open store", "the target must be a connection of node:sqlite or a URL", target);
    }
    return new NodeSqliteClient(target, { opened: false });
  }
  const path = /^sqlite:(?:\/\/)?(.*)$/is.exec(target)?.[1];
  if (path === undefined || path === "") {
    // A URL of another scheme may hold a password.
    const scheme = /^[a-z]+:/i.exec(target)?.[0] ?? "no scheme";
    refuse("open store", "a URL must be sqlite:path or sqlite::memory:", scheme);
  }
  const { DatabaseSync } = await importDriver();
  try {
    return new NodeSqliteClient(new DatabaseSync(path, { timeout: 0 }), { opened: true });
  } catch (error) {
    throw driverError(sqliteDialect.classify(error), "open.connect", error);
  }
}

async function importDriver(): Promise<typeof import("node:sqlite")> {
  try {
    return await import("node:sqlite");
  } catch (error) {
    const remedy = "the runtime lacks the driver, use Node 22.16 or later, Deno or Bun";
    throw new DriverMissingError("node:sqlite", { cause: error, remedy });
  }
}
