/**
 * H2, for development and tests, over the driver `postgres` (postgres.js) and H2's own server of the
 * PostgreSQL protocol: `java -cp h2.jar org.h2.tools.Server -pg -ifNotExists`.
 *
 * @example Over the application's pool
 * ```ts ignore
 * import postgres from "postgres";
 * import { openStore } from "@fencepost/store/h2";
 *
 * const sql = postgres("postgres://sa@localhost:5435/shop", { fetch_types: false });
 * const store = await openStore(sql, { initSchema: true });
 * console.log(await store.ranges.reserve("order", 1_000)); // { start: 1n, end: 1001n }
 * await sql.end(); // the store never closes what it was given
 * ```
 *
 * @example From a URL, whose connections the store closes
 * ```ts ignore
 * import { openStore } from "@fencepost/store/h2";
 *
 * await using store = await openStore("h2://localhost/shop", { initSchema: true });
 * console.log(await store.ranges.read("order"));
 * ```
 *
 * @module
 */

import { refuse } from "../../core/arguments.ts";
import { DriverMissingError } from "../../core/errors.ts";
import { openStoreOver, type Store, type StoreOptions } from "../../core/store.ts";
import { checkDriverOptions } from "../shared/options.ts";
import { isPostgresJs, type PostgresJsSql } from "../shared/postgres_js.ts";
import { h2Dialect } from "./dialect.ts";
import { H2PostgresJsClient } from "./postgres.ts";

export { h2Dialect, H2PostgresJsClient };
export type {
  PostgresJsOptions,
  PostgresJsPool,
  PostgresJsQuery,
  PostgresJsResult,
  PostgresJsRunner,
  PostgresJsSql,
} from "../shared/postgres_js.ts";
export type { Store, StoreOptions } from "../../core/store.ts";

/** The options of `openStore` on H2. */
export interface H2Options extends StoreOptions {
  /**
   * Says that nothing else sends `begin` on a pool of one connection. Pools of several need it not.
   *
   * @default {false}
   */
  exclusive?: boolean;
  /**
   * Whether statements are prepared on the server, which spares each a round trip. A pool with
   * `prepare: false` prepares none, whatever this says.
   *
   * @default {true}
   */
  prepare?: boolean;
  /**
   * The user, with a URL.
   *
   * @default {"sa"}
   */
  username?: string;
  /** The password, with a URL. It is part of no error. */
  password?: string;
}

/** What a store on H2 can be opened on: the `sql` of postgres.js, or a URL. */
export type H2Target = string | PostgresJsSql;

/** The port of H2's server of the PostgreSQL protocol. */
const defaultPort = 5435;

/**
 * Opens a store on H2.
 *
 * @param target The `sql` of postgres.js, made with `fetch_types: false`, which the store does not
 * close; or a URL `h2://user@host:port/database`, whose connections it does. What follows the host is
 * the name of the database as H2 has it: `h2://localhost/mem:test` is one in memory.
 * @param options See `H2Options`.
 * @throws {InvalidArgumentError} If an argument is not allowed.
 * @throws {ConfigurationError} If the driver, a setting of it or the server cannot be used.
 * @throws {InTransactionError} If the target is an open transaction.
 * @throws {DriverMissingError} If the driver's package is not installed.
 * @throws {SchemaError} If a table is missing, or lacks a column.
 * @throws {TimeoutError} If the server does not answer in time, as with a wrong password.
 * @throws {StoreError} If the server cannot be reached, or refuses.
 */
export async function openStore(target: H2Target, options: H2Options = {}): Promise<Store> {
  checkDriverOptions(target, options);
  const { exclusive = false, prepare = true, username, password, ...rest } = options;
  const client = typeof target === "string"
    ? await openUrl(target, { prepare, username, password })
    : clientOf(target, { exclusive, prepare });
  return await openStoreOver(client, { ...rest, builtIn: [h2Dialect] });
}

function clientOf(
  target: PostgresJsSql,
  options: { exclusive: boolean; prepare: boolean },
): H2PostgresJsClient {
  if (isPostgresJs(target)) return new H2PostgresJsClient(target, { ...options, opened: false });
  refuse("open store", "the target must be the sql of postgres.js or a URL", target);
}

async function openUrl(
  url: string,
  options: { prepare: boolean; username?: string; password?: string },
): Promise<H2PostgresJsClient> {
  const { host, port, database, ...credentials } = partsOf(url);
  const { prepare, username = credentials.username, password = credentials.password } = options;
  const postgres = await importPostgres();
  const pool = postgres({
    host,
    port,
    database,
    username,
    // As a text an empty one would give way to that of the environment.
    password: () => password,
    prepare,
    ssl: false,
    fetch_types: false,
    onnotice: () => {},
  });
  return new H2PostgresJsClient(pool, { opened: true, exclusive: true, prepare });
}

interface UrlParts {
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly username: string;
  readonly password: string;
}

function partsOf(text: string): UrlParts {
  const scheme = /^([a-z][a-z0-9]*):/i.exec(text)?.[1]?.toLowerCase();
  if (scheme !== "h2") {
    refuse("open store", "the URL must begin with h2:", scheme ? `${scheme}:…` : "no scheme");
  }
  try {
    const url = new URL(text);
    const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
    const database = decodeURIComponent(url.pathname.slice(1));
    if (host !== "" && database !== "" && url.search === "" && url.hash === "") {
      return {
        host,
        port: url.port === "" ? defaultPort : Number(url.port),
        database,
        username: decodeURIComponent(url.username) || "sa",
        password: decodeURIComponent(url.password),
      };
    }
  } catch {
    // The platform's error shows the URL, which may hold a password.
  }
  refuse("open store", "the URL must be of the form h2://user@host:port/database", "h2:…");
}

// It stands directly in a try block: bundlers then take a missing package for a warning.
async function importPostgres(): Promise<typeof import("postgres")> {
  try {
    return (await import("postgres")).default;
  } catch (error) {
    throw new DriverMissingError("postgres", { cause: error });
  }
}
