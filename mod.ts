/**
 * Identifiers that never repeat, over the SQL database and the driver that a service already has.
 *
 * This entry opens a store from a URL, and loads the dialect and the driver of its scheme when it is
 * called. To hand over a pool or connection of your own, import the entry of its database, such as
 * `@fencepost/store/postgresql`.
 *
 * @example
 * ```ts
 * import { openStore } from "@fencepost/store";
 *
 * await using store = await openStore("sqlite::memory:", { initSchema: true });
 * console.log(await store.ranges.reserve("order", 1_000)); // { start: 1n, end: 1001n }
 * ```
 *
 * @module
 */

import { refuse } from "./core/arguments.ts";
import { checkStoreOptions, openStoreOver, type Store, type StoreOptions } from "./core/store.ts";
import type { Client } from "./core/sql/client.ts";

export * from "./core/errors.ts";
export type * from "./core/events.ts";
export {
  type HeldSnowflakeIdsOptions,
  type IdFormat,
  type IdOf,
  SnowflakeIds,
  type SnowflakeIdsOptions,
  type SnowflakeOptions,
} from "./core/id/snowflake_ids.ts";
export {
  parseSnowflakeId,
  safeIntegerLayout,
  type SnowflakeLayout,
  snowflakeLayout,
  type SnowflakeParts,
} from "./core/id/snowflake_layout.ts";
export type { Range } from "./core/range/range.ts";
export {
  type FetchPlan,
  type RangeState,
  RangeStore,
  type ReserveOptions,
} from "./core/range/range_store.ts";
export {
  type CallOptions,
  Deadline,
  type Runtime,
  systemRuntime,
  type Timer,
  type Waiter,
} from "./core/runtime.ts";
export type { AcquireOptions, HoldOptions, ReleaseOptions } from "./core/slot/slot_arguments.ts";
export { SlotHold } from "./core/slot/slot_hold.ts";
export { SlotLease, type SlotLeaseData } from "./core/slot/slot_lease.ts";
export { type NamespaceState, type SlotState, SlotStore } from "./core/slot/slot_store.ts";
export * from "./core/sql/client.ts";
export * from "./core/sql/dialect.ts";
export { type Cell, type Columns, type QueryResult, Row } from "./core/sql/row.ts";
export {
  type Bindable,
  doubleQuoted,
  Identifier,
  literal,
  type Rendered,
  Renderer,
  sql,
  type SqlPart,
  Statement,
} from "./core/sql/statement.ts";
export type { PresentTables, TableOptions, Tables } from "./core/sql/tables.ts";
export { Store, type StoreOptions } from "./core/store.ts";

/** The options of `openStore` with a URL. */
export interface UrlOptions extends StoreOptions {
  /** Whether statements are prepared on the server, where the dialect has the option. */
  prepare?: boolean;
  /** The user, if it is not part of the URL. */
  username?: string;
  /** The password, if it is not part of the URL. It is part of no error. */
  password?: string;
}

/**
 * Opens a store from a URL: `postgres://…`, `postgresql://…`, `pglite:path`, `mysql://…`,
 * `mariadb://…`, `sqlserver://…`, `mssql://…`, `h2://…`, `sqlite:path` or `sqlite::memory:`. The store
 * closes the connections that it opened.
 *
 * Or over an adapter for a driver that the library does not know, with `dialects` or `dialect`.
 *
 * @param target The URL, or the adapter.
 * @param options See `StoreOptions` and the entry of the database.
 * @throws {InvalidArgumentError} If the scheme is not known, or an option is not allowed.
 * @throws {DriverMissingError} If the driver's package is not installed.
 * @throws {SchemaError} If a table is missing, or lacks a column.
 * @throws {TimeoutError} If the server does not answer in time.
 * @throws {StoreError} If the server cannot be reached, or refuses.
 */
export async function openStore(
  target: string | Client,
  options: UrlOptions = {},
): Promise<Store> {
  if (typeof target !== "string") {
    if (!isClient(target)) {
      refuse(
        "open store",
        "the target must be a URL or a Client; a driver's object goes to openStore of its " +
          "database's entry, such as @fencepost/store/postgresql",
        target,
      );
    }
    checkStoreOptions(options);
    return await openStoreOver(target, { ...options, builtIn: [] });
  }
  const scheme = /^([a-z][a-z0-9]*):/i.exec(target)?.[1]?.toLowerCase();
  switch (scheme) {
    case "postgres":
    case "postgresql":
    case "pglite":
      return await (await import("./dialects/postgresql/mod.ts")).openStore(target, options);
    case "mysql":
    case "mariadb":
      return await (await import("./dialects/mysql/mod.ts")).openStore(target, options);
    case "h2":
      return await (await import("./dialects/h2/mod.ts")).openStore(target, options);
    case "sqlite":
      return await (await import("./dialects/sqlite/mod.ts")).openStore(target, options);
    case "sqlserver":
    case "mssql":
      return await (await import("./dialects/sqlserver/mod.ts")).openStore(target, options);
  }
  refuse(
    "open store",
    "the URL must begin with postgres:, postgresql:, pglite:, mysql:, mariadb:, sqlserver:, mssql:, " +
      "h2: or sqlite:",
    scheme === undefined ? "no scheme" : `${scheme}:…`,
  );
}

function isClient(target: Client): boolean {
  return typeof target?.family === "string" &&
    (["server", "query", "session", "close"] as const)
      .every((name) => typeof target[name] === "function");
}
