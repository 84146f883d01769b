/**
 * SQL Server and Azure SQL, over the driver `mssql` with `tedious` inside, its default.
 *
 * @example Over the application's pool
 * ```ts ignore
 * import mssql from "mssql";
 * import { openStore } from "@fencepost/store/sqlserver";
 *
 * const pool = await mssql.connect("Server=localhost;Database=shop;…");
 * const store = await openStore(pool, { initSchema: true });
 * console.log(await store.ranges.reserve("order", 1_000)); // { start: 1n, end: 1001n }
 * await pool.close(); // the store never closes what it was given
 * ```
 *
 * @example From a URL, whose connections the store closes
 * ```ts ignore
 * import { openStore } from "@fencepost/store/sqlserver";
 *
 * const password = "…"; // from where secrets are kept
 * await using store = await openStore("sqlserver://localhost/shop", { username: "shop", password });
 * console.log(await store.ranges.read("order"));
 * ```
 *
 * @module
 */

import { refuse } from "../../core/arguments.ts";
import { ConfigurationError, DriverMissingError } from "../../core/errors.ts";
import { inTransaction } from "../../core/sql/exclusive.ts";
import { openStoreOver, type Store, type StoreOptions } from "../../core/store.ts";
import { checkDriverOptions } from "../shared/options.ts";
import { sqlserverDialect } from "./dialect.ts";
import { isMssqlPool, isTransaction, MssqlClient, type MssqlPool } from "./mssql.ts";
import { configOf } from "./url.ts";

export { MssqlClient, sqlserverDialect };
export type { MssqlPool, MssqlRequest, MssqlResult, MssqlTransaction } from "./mssql.ts";
export type { Store, StoreOptions } from "../../core/store.ts";

/** The options of `openStore` on SQL Server. */
export interface SqlserverOptions extends StoreOptions {
  /** The user, with a URL. */
  username?: string;
  /** The password, with a URL. It is part of no error. */
  password?: string;
}

/**
 * Opens a store on SQL Server.
 *
 * A URL may have the parameters `encrypt` (`true`, which is the default, `false` or `strict`),
 * `trustServerCertificate` (`true` or `false`, which is the default), `instanceName` in place of a port,
 * `appName`, and `max`, the number of connections, which is 10 unless given.
 *
 * @param target A `ConnectionPool` of `mssql` that is open, which the store does not close; or a URL,
 * whose connections it does: `sqlserver://user:password@host:port/database`, or the same with `mssql:`.
 * @param options See `SqlserverOptions`.
 * @throws {InvalidArgumentError} If an argument is not allowed.
 * @throws {ConfigurationError} If the driver, a setting of it or the server cannot be used.
 * @throws {InTransactionError} If the target is a transaction.
 * @throws {DriverMissingError} If the driver's package is not installed.
 * @throws {SchemaError} If a table is missing, or lacks a column.
 * @throws {TimeoutError} If the server does not answer in time.
 * @throws {StoreError} If the server cannot be reached, or refuses.
 */
export async function openStore(
  target: string | MssqlPool,
  options: SqlserverOptions = {},
): Promise<Store> {
  checkDriverOptions(target, options, []);
  const { username, password, ...rest } = options;
  const client = typeof target === "string"
    ? await openUrl(target, { username, password })
    : clientOf(target);
  return await openStoreOver(client, { ...rest, builtIn: [sqlserverDialect] });
}

function clientOf(target: unknown): MssqlClient {
  if (isMssqlPool(target)) return new MssqlClient(target, { opened: false });
  if (isTransaction(target)) throw inTransaction("open store");
  if (typeof target === "object" && target !== null && "parameters" in target) {
    throw new ConfigurationError(
      "Cannot open store: it takes the ConnectionPool of mssql: received one of its requests or " +
        "prepared statements",
    );
  }
  refuse("open store", "the target must be a ConnectionPool of mssql or a URL", target);
}

async function openUrl(
  url: string,
  credentials: { username?: string; password?: string },
): Promise<MssqlClient> {
  const config = configOf(url, credentials);
  const { ConnectionPool } = await importMssql();
  return new MssqlClient(new ConnectionPool(config), { opened: true });
}

/** What is used of the driver's module, which has no types of its own. */
interface MssqlModule {
  readonly ConnectionPool: new (config: ReturnType<typeof configOf>) => MssqlPool;
}

// The import stands directly in a try block: bundlers then take a missing package for a warning.
async function importMssql(): Promise<MssqlModule> {
  try {
    const module: { readonly default: MssqlModule } = await import("mssql");
    return module.default;
  } catch (error) {
    throw new DriverMissingError("mssql", { cause: error });
  }
}
