/**
 * PostgreSQL, over the driver that the application has: `postgres` (postgres.js), `pg`, or PGlite in
 * the process.
 *
 * @example Over the application's pool
 * ```ts ignore
 * import postgres from "postgres";
 * import { openStore } from "@fencepost/store/postgresql";
 *
 * const sql = postgres("postgres://localhost/shop");
 * const store = await openStore(sql, { initSchema: true });
 * console.log(await store.ranges.reserve("order", 1_000)); // { start: 1n, end: 1001n }
 * await sql.end(); // the store never closes what it was given
 * ```
 *
 * @example From a URL, whose connections the store closes
 * ```ts ignore
 * import { openStore } from "@fencepost/store/postgresql";
 *
 * await using store = await openStore("postgres://localhost/shop");
 * console.log(await store.ranges.read("order"));
 * ```
 *
 * @module
 */

import { refuse } from "../../core/arguments.ts";
import { DriverMissingError } from "../../core/errors.ts";
import type { Client } from "../../core/sql/client.ts";
import { inTransaction } from "../../core/sql/exclusive.ts";
import { openStoreOver, type Store, type StoreOptions } from "../../core/store.ts";
import { checkDriverOptions } from "../shared/options.ts";
import { isPostgresJs, type PostgresJsSql } from "../shared/postgres_js.ts";
import { postgresqlDialect } from "./dialect.ts";
import { isPg, PgClient, type PgConnection, type PgPool } from "./pg.ts";
import { isPglite, isPgliteTransaction, PgliteClient, type PgliteDatabase } from "./pglite.ts";
import { PostgresJsClient } from "./postgres.ts";

export { PgClient, PgliteClient, PostgresJsClient, postgresqlDialect };
export type { PgConnection, PgPool, PgPooledConnection, PgQuery, PgResult } from "./pg.ts";
export type { PgliteDatabase, PgliteQueryOptions, PgliteResult, PgliteRunner } from "./pglite.ts";
export type {
  PostgresJsOptions,
  PostgresJsPool,
  PostgresJsQuery,
  PostgresJsResult,
  PostgresJsRunner,
  PostgresJsSql,
} from "../shared/postgres_js.ts";
export type { Store, StoreOptions } from "../../core/store.ts";

/** The options of `openStore` on PostgreSQL. */
export interface PostgresqlOptions extends StoreOptions {
  /**
   * Says that nothing else sends `begin` on a single connection: a `Client` of `pg`, or a pool of
   * postgres.js with `max: 1`. Pools of several need it not.
   *
   * @default {false}
   */
  exclusive?: boolean;
  /**
   * Whether statements are prepared on the server. Turn it off behind a pooler that shares
   * connections between transactions and does not know prepared statements.
   *
   * @default {true}
   */
  prepare?: boolean;
  /** The user, with a URL. */
  username?: string;
  /** The password, with a URL. It is part of no error. */
  password?: string;
}

/** What a store on PostgreSQL can be opened on: a driver's object, or a URL. */
export type PostgresqlTarget = string | PostgresJsSql | PgPool | PgConnection | PgliteDatabase;

/**
 * Opens a store on PostgreSQL.
 *
 * @param target The `sql` of postgres.js, a `Pool` of `pg` or a `PGlite`, which the store does not
 * close; or a URL, whose connections it does: `postgres://…` and `postgresql://…` over the package
 * `postgres`, `pglite:path` and `pglite:memory://` over the package `@electric-sql/pglite`. A PGlite
 * that is still starting, which takes seconds, is waited for however long it takes.
 * @param options See `PostgresqlOptions`.
 * @throws {InvalidArgumentError} If an argument is not allowed.
 * @throws {ConfigurationError} If the driver, a setting of it or the server cannot be used.
 * @throws {InTransactionError} If the target is an open transaction.
 * @throws {DriverMissingError} If the driver's package is not installed.
 * @throws {SchemaError} If a table is missing, or lacks a column.
 * @throws {TimeoutError} If the server does not answer in time.
 * @throws {StoreError} If the server cannot be reached, or refuses.
 */
export async function openStore(
  target: PostgresqlTarget,
  options: PostgresqlOptions = {},
): Promise<Store> {
  checkDriverOptions(target, options);
  const { exclusive = false, prepare = true, username, password, ...rest } = options;
  const client = typeof target === "string"
    ? await openUrl(target, { prepare, username, password })
    : clientOf(target, { exclusive, prepare });
  if (client instanceof PgliteClient) await client.ready();
  return await openStoreOver(client, { ...rest, builtIn: [postgresqlDialect] });
}

function clientOf(
  target: Exclude<PostgresqlTarget, string>,
  options: { exclusive: boolean; prepare: boolean },
): Client {
  if (isPostgresJs(target)) return new PostgresJsClient(target, { ...options, opened: false });
  if (isPglite(target)) return new PgliteClient(target, { opened: false });
  if (isPgliteTransaction(target)) throw inTransaction("open store");
  if (isPg(target)) return new PgClient(target, options);
  refuse(
    "open store",
    "the target must be the sql of postgres.js, a Pool of pg, a PGlite or a URL",
    target,
  );
}

async function openUrl(
  url: string,
  options: { prepare: boolean; username?: string; password?: string },
): Promise<Client> {
  const { prepare, username, password } = options;
  const scheme = /^([a-z]+):/i.exec(url)?.[1]?.toLowerCase();
  if (scheme === "pglite") {
    const PGlite = await importPglite();
    return new PgliteClient(new PGlite(url.slice("pglite:".length)), { opened: true });
  }
  if (scheme !== "postgres" && scheme !== "postgresql") {
    refuse("open store", "the URL must begin with postgres:, postgresql: or pglite:", scheme);
  }
  const postgres = await importPostgres();
  const credentials = {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
  };
  let pool: PostgresJsSql;
  try {
    pool = postgres(url, { prepare, fetch_types: false, onnotice: () => {}, ...credentials });
  } catch {
    // The driver's error shows the URL, which may hold a password.
    refuse("open store", "the URL must be of the form postgres://host/database", `${scheme}:…`);
  }
  return new PostgresJsClient(pool, { opened: true, exclusive: true, prepare });
}

// Each import stands directly in a try block: bundlers then take a missing package for a warning.

async function importPostgres(): Promise<typeof import("postgres")> {
  try {
    return (await import("postgres")).default;
  } catch (error) {
    throw new DriverMissingError("postgres", { cause: error });
  }
}

async function importPglite(): Promise<typeof import("@electric-sql/pglite").PGlite> {
  try {
    return (await import("@electric-sql/pglite")).PGlite;
  } catch (error) {
    throw new DriverMissingError("@electric-sql/pglite", { cause: error });
  }
}
