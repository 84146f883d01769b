/**
 * A connection to a database of any kind, for what the library has no call for: to ask what it is,
 * and to drop a table.
 *
 * No error contains a credential.
 *
 * @module
 */

import { DatabaseSync } from "node:sqlite";
// @ts-types="npm:@types/mssql@^12.3.0"
import type mssql from "mssql";
import { InvalidArgumentError } from "../core/errors.ts";
import { systemRuntime } from "../core/runtime.ts";
import type { Client, ServerInfo } from "../core/sql/client.ts";
import { Database, driverError } from "../core/sql/database.ts";
import type { Dialect } from "../core/sql/dialect.ts";

/** A kind of database, as the library's URLs tell them apart. */
export type TargetFamily =
  | "postgresql"
  | "pglite"
  | "mysql"
  | "mariadb"
  | "sqlserver"
  | "h2"
  | "sqlite";

const families: Readonly<Record<string, TargetFamily>> = {
  postgres: "postgresql",
  postgresql: "postgresql",
  pglite: "pglite",
  mysql: "mysql",
  mariadb: "mariadb",
  sqlserver: "sqlserver",
  mssql: "sqlserver",
  h2: "h2",
  sqlite: "sqlite",
};

/** What kind of database a URL names. */
export function familyOf(url: string): TargetFamily {
  const scheme = /^([a-z][a-z0-9]*):/i.exec(url)?.[1]?.toLowerCase() ?? "none";
  const family = Object.hasOwn(families, scheme) ? families[scheme] : undefined;
  if (family !== undefined) return family;
  throw new InvalidArgumentError(
    `Cannot open database: the URL's scheme must be one of ${Object.keys(families).join(", ")}: ` +
      `received ${scheme}`,
  );
}

const timeoutMs = 5_000;

/** How {@linkcode onDatabase} is ended early. */
export interface OnDatabaseOptions {
  /** Ends the opening. */
  readonly signal?: AbortSignal;
}

/**
 * Does something on a connection of its own, once the server has said what it is. Statements end
 * within five seconds, and fail with the library's errors.
 */
export async function onDatabase<T>(
  url: string,
  work: (database: Database, server: ServerInfo) => Promise<T>,
  { signal }: OnDatabaseOptions = {},
): Promise<T> {
  const { client, dialect } = await open(url);
  const database = new Database(client, { dialect, runtime: systemRuntime, timeoutMs });
  try {
    const call = { name: "open.server", deadline: database.deadline({ signal }) };
    const server = await database.run(() => client.server(call), call);
    const result = await work(database, server);
    await database.close();
    return result;
  } catch (error) {
    // Not awaited: a server that never answers would hold up the error.
    database.close().catch(() => {});
    throw error;
  }
}

/** A client, and the dialect that knows what its errors mean. */
interface Opened {
  readonly client: Client;
  readonly dialect: Dialect;
}

async function open(url: string): Promise<Opened> {
  switch (familyOf(url)) {
    case "sqlite":
      return await openSqlite(url.replace(/^sqlite:(?:\/\/)?/i, ""));
    case "pglite":
      return await openPglite(url.slice("pglite:".length));
    case "postgresql":
      return await openPostgresql(url);
    case "mysql":
    case "mariadb":
      return await openMysql(url);
    case "h2":
      return await openH2(url);
    case "sqlserver":
      return await openSqlserver(url);
  }
}

async function openSqlite(path: string): Promise<Opened> {
  const { NodeSqliteClient, sqliteDialect: dialect } = await import("../dialects/sqlite/mod.ts");
  if (path === "") throw new InvalidArgumentError("Cannot open database: sqlite: needs a path");
  try {
    const database = new DatabaseSync(path, { timeout: 0 });
    return { client: new NodeSqliteClient(database, { opened: true }), dialect };
  } catch (error) {
    throw driverError(dialect.classify(error), "open.connect", error);
  }
}

async function openPglite(path: string): Promise<Opened> {
  const { PgliteClient, postgresqlDialect } = await import("../dialects/postgresql/mod.ts");
  const { PGlite } = await import("@electric-sql/pglite");
  const client = new PgliteClient(new PGlite(path), { opened: true });
  await client.ready();
  return { client, dialect: postgresqlDialect };
}

async function openPostgresql(url: string): Promise<Opened> {
  const { PostgresJsClient, postgresqlDialect } = await import("../dialects/postgresql/mod.ts");
  const { default: postgres } = await import("postgres");
  const options = { max: 1, fetch_types: false, prepare: false, onnotice: () => {} };
  const pool = readUrl("postgres", () => postgres(url, options));
  return {
    client: new PostgresJsClient(pool, { opened: true, exclusive: true, prepare: false }),
    dialect: postgresqlDialect,
  };
}

async function openMysql(url: string): Promise<Opened> {
  const { Mysql2Client, mysqlDialect } = await import("../dialects/mysql/mod.ts");
  const { createPool } = await import("mysql2");
  const pool = readUrl("mysql", () => createPool({ uri: url, connectionLimit: 1 }));
  return {
    client: new Mysql2Client(pool, { exclusive: false, prepare: false, opened: pool }),
    // MariaDB's errors mean the same.
    dialect: mysqlDialect,
  };
}

async function openH2(url: string): Promise<Opened> {
  const { H2PostgresJsClient, h2Dialect } = await import("../dialects/h2/mod.ts");
  const { default: postgres } = await import("postgres");
  const address = url.replace(/^h2:/i, "postgres:");
  const options = { max: 1, fetch_types: false, onnotice: () => {} };
  const pool = readUrl("h2", () => postgres(address, options));
  return {
    client: new H2PostgresJsClient(pool, { opened: true, exclusive: true, prepare: true }),
    dialect: h2Dialect,
  };
}

async function openSqlserver(url: string): Promise<Opened> {
  const { MssqlClient, sqlserverDialect } = await import("../dialects/sqlserver/mod.ts");
  const { configOf } = await import("../dialects/sqlserver/url.ts");
  const { default: { ConnectionPool } }: { default: typeof mssql } = await import("mssql");
  const pool = new ConnectionPool(configOf(url, {}));
  return { client: new MssqlClient(pool, { opened: true }), dialect: sqlserverDialect };
}

/** Lets a driver read the URL. Its error would show it, with the password that it may hold. */
function readUrl<T>(scheme: string, read: () => T): T {
  try {
    return read();
  } catch {
    throw new InvalidArgumentError(
      `Cannot open database: the URL must be of the form ${scheme}://host/database`,
    );
  }
}
