/**
 * MySQL and MariaDB, over the driver `mysql2`, with callbacks or promises.
 *
 * @example Over the application's pool
 * ```ts ignore
 * import { createPool } from "mysql2/promise";
 * import { openStore } from "@fencepost/store/mysql";
 *
 * const pool = createPool("mysql://localhost/shop");
 * const store = await openStore(pool, { initSchema: true });
 * console.log(await store.ranges.reserve("order", 1_000)); // { start: 1n, end: 1001n }
 * await pool.end(); // the store never closes what it was given
 * ```
 *
 * @example From a URL, whose connections the store closes
 * ```ts ignore
 * import { openStore } from "@fencepost/store/mysql";
 *
 * await using store = await openStore("mariadb://localhost/shop");
 * console.log(await store.ranges.read("order"));
 * ```
 *
 * @module
 */

import { refuse } from "../../core/arguments.ts";
import { DriverMissingError } from "../../core/errors.ts";
import { openStoreOver, type Store, type StoreOptions } from "../../core/store.ts";
import { mariadbDialect } from "../mariadb/dialect.ts";
import { checkDriverOptions } from "../shared/options.ts";
import { mysqlDialect } from "./dialect.ts";
import { isMysql2, Mysql2Client, type Mysql2OwnPool, type Mysql2Target } from "./mysql2.ts";

export { mariadbDialect, Mysql2Client, mysqlDialect };
export type {
  Mysql2Callback,
  Mysql2Connection,
  Mysql2OwnPool,
  Mysql2Pool,
  Mysql2PooledConnection,
  Mysql2PromiseConnection,
  Mysql2PromisePool,
  Mysql2Query,
  Mysql2Target,
} from "./mysql2.ts";
export type { Store, StoreOptions } from "../../core/store.ts";

/** The options of `openStore` on MySQL and MariaDB. */
export interface MysqlOptions extends StoreOptions {
  /**
   * Says that nothing else begins a transaction on a single connection. Pools need it not.
   *
   * @default {false}
   */
  exclusive?: boolean;
  /**
   * Whether statements are prepared on the server. Turn it off behind a proxy that does not know
   * prepared statements.
   *
   * @default {true}
   */
  prepare?: boolean;
  /** The user, with a URL. */
  username?: string;
  /** The password, with a URL. It is part of no error. */
  password?: string;
}

/** What a store on MySQL or MariaDB can be opened on: a driver's object, or a URL. */
export type MysqlTarget = string | Mysql2Target;

/**
 * Opens a store on MySQL or MariaDB; which of them it is, the server says.
 *
 * @param target A pool of `mysql2` or `mysql2/promise`, which the store does not close; or a URL,
 * whose connections it does: `mysql://…` or `mariadb://…`, with the driver's options as parameters.
 * @param options See `MysqlOptions`.
 * @throws {InvalidArgumentError} If an argument is not allowed.
 * @throws {ConfigurationError} If the driver, a setting of it, the server or a table cannot be used.
 * @throws {InTransactionError} If the target is a connection inside an open transaction.
 * @throws {DriverMissingError} If the driver's package is not installed.
 * @throws {SchemaError} If a table is missing, or lacks a column.
 * @throws {TimeoutError} If the server does not answer in time.
 * @throws {StoreError} If the server cannot be reached, or refuses.
 */
export async function openStore(target: MysqlTarget, options: MysqlOptions = {}): Promise<Store> {
  checkDriverOptions(target, options);
  const { exclusive = false, prepare = true, username, password, ...rest } = options;
  const client = typeof target === "string"
    ? await openUrl(target, { prepare, username, password })
    : clientOf(target, { exclusive, prepare });
  return await openStoreOver(client, { ...rest, builtIn: [mysqlDialect, mariadbDialect] });
}

function clientOf(
  target: Mysql2Target,
  options: { exclusive: boolean; prepare: boolean },
): Mysql2Client {
  if (isMysql2(target)) return new Mysql2Client(target, options);
  refuse("open store", "the target must be a pool of mysql2 or mysql2/promise, or a URL", target);
}

async function openUrl(
  url: string,
  options: { prepare: boolean; username?: string; password?: string },
): Promise<Mysql2Client> {
  const { prepare, username, password } = options;
  const [, scheme, rest] = /^([a-z]+)(:.*)$/is.exec(url) ?? [];
  if (scheme === undefined || !/^(mysql|mariadb)$/i.test(scheme)) {
    refuse("open store", "the URL must begin with mysql: or mariadb:", scheme);
  }
  const createPool = await importMysql2();
  const credentials = {
    ...(username === undefined ? {} : { user: username }),
    ...(password === undefined ? {} : { password }),
  };
  let pool: Mysql2OwnPool;
  try {
    // The driver's own handling of URLs knows only one of the two names.
    pool = createPool({ uri: `mysql${rest}`, ...credentials });
  } catch {
    // The driver's error shows the URL, which may hold a password.
    refuse("open store", "the URL must be of the form mysql://host/database", `${scheme}:…`);
  }
  return new Mysql2Client(pool, { exclusive: false, prepare, opened: pool });
}

async function importMysql2(): Promise<typeof import("mysql2").createPool> {
  // The import stands directly in a try block: bundlers then take a missing package for a warning.
  try {
    return (await import("mysql2")).createPool;
  } catch (error) {
    throw new DriverMissingError("mysql2", { cause: error });
  }
}
