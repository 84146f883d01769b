/**
 * The database that a program of this folder runs against: one that runs already, a throwaway
 * server, or SQLite in a temporary folder. What was started ends with the target, and at the latest
 * with the process; only a folder without a server survives `kill -9`. One that runs already is
 * opened as the library opens it, and asked what it is.
 *
 * No error and no name of a product contains a credential.
 *
 * @module
 */

import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import postgres from "postgres";
import { ConfigurationError, InvalidArgumentError } from "../core/errors.ts";
import { systemRuntime } from "../core/runtime.ts";
import type { Client } from "../core/sql/client.ts";
import { Database, driverError } from "../core/sql/database.ts";
import type { Dialect } from "../core/sql/dialect.ts";
import { PgliteClient, PostgresJsClient, postgresqlDialect } from "../dialects/postgresql/mod.ts";
import { NodeSqliteClient, sqliteDialect } from "../dialects/sqlite/mod.ts";
import { type RunningServer, servers } from "../tests/servers/mod.ts";

/** A kind of database, as the library's URLs tell them apart. */
export type TargetFamily = "postgresql" | "sqlite" | "pglite";

/** A database to run against. What was started for it ends when it is disposed of. */
export interface Target extends AsyncDisposable {
  /** The URL to open a store with; it may hold a password. */
  readonly url: string;
  /** What kind of database it is. */
  readonly family: TargetFamily;
  /** What it says it is, for people: "PostgreSQL 15.18, throwaway". */
  readonly product: string;
}

/** Which database; SQLite in a temporary folder if neither a URL nor a server is named. */
export interface Where {
  /** One that runs already. */
  readonly url?: string;
  /** One of {@linkcode serverNames}, to be started. */
  readonly server?: string;
  /**
   * Whether a started server keeps what it committed through a crash, as in production.
   *
   * @default {false}
   */
  readonly durable?: boolean;
  /** Ends the opening early; it rejects with the signal's reason once nothing is left of it. */
  readonly signal?: AbortSignal;
}

/** The names of the servers that can be started. */
export const serverNames: readonly string[] = servers.map(({ name }) => name);

/**
 * Opens the database to run against; resolves when it answers.
 *
 * @throws {InvalidArgumentError} If the URL or the server's name is not known.
 * @throws {ConfigurationError} If this machine cannot start the server.
 * @throws {StoreError} If the database cannot be reached, or refuses.
 * @throws {TimeoutError} If it does not answer in time.
 */
export async function openTarget(where: Where): Promise<Target> {
  const { url, server, signal } = where;
  if (url === undefined) return await startTarget(server ?? "sqlite", where);
  if (server !== undefined) {
    throw new InvalidArgumentError("Cannot open database: a URL and a server exclude each other");
  }
  const family = familyOf(url);
  return {
    url,
    family,
    product: await productOf(url, signal),
    [Symbol.asyncDispose]: async () => {},
  };
}

const timeoutMs = 5_000;

/** What kind of database a URL names. */
export function familyOf(url: string): TargetFamily {
  const scheme = /^([a-z]+):/i.exec(url)?.[1]?.toLowerCase();
  switch (scheme) {
    case "postgres":
    case "postgresql":
      return "postgresql";
    case "pglite":
    case "sqlite":
      return scheme;
  }
  throw new InvalidArgumentError(
    "Cannot open database: the URL's scheme must be postgres, postgresql, pglite or sqlite: " +
      `received ${scheme ?? "none"}`,
  );
}

/**
 * Does something on a connection of its own that the library has no call for. Statements end within
 * five seconds, and fail with the library's errors.
 */
export async function onDatabase<T>(
  url: string,
  work: (database: Database, client: Client) => Promise<T>,
): Promise<T> {
  const { client, dialect } = await clientOf(url);
  const database = new Database(client, { dialect, runtime: systemRuntime, timeoutMs });
  try {
    const result = await work(database, client);
    await database.close();
    return result;
  } catch (error) {
    // Not awaited: a server that never answers would hold up the error.
    database.close().catch(() => {});
    throw error;
  }
}

async function startTarget(name: string, { durable, signal }: Where): Promise<Target> {
  const server = servers.find((server) => server.name === name);
  if (server === undefined) {
    throw new InvalidArgumentError(
      `Cannot start database: there are ${serverNames.join(", ")}: received "${name}"`,
    );
  }
  const reason = await server.unavailable();
  if (reason !== undefined) throw new ConfigurationError(`Cannot start ${name}: ${reason}`);
  const running = await server.start({ durable });
  if (signal?.aborted) {
    await running.stop();
    throw signal.reason;
  }
  const { url } = running;
  return {
    url,
    family: familyOf(url),
    product: startedProduct(running),
    [Symbol.asyncDispose]: () => running.stop(),
  };
}

function startedProduct({ url, version }: RunningServer): string {
  switch (familyOf(url)) {
    case "sqlite":
      return `SQLite ${version}, a file in a temporary folder`;
    case "pglite":
      return `PGlite, PostgreSQL ${version}, in a temporary folder`;
    case "postgresql":
      return `PostgreSQL ${version}${url === process.env.POSTGRESQL_URL ? "" : ", throwaway"}`;
  }
}

async function productOf(url: string, signal?: AbortSignal): Promise<string> {
  return await onDatabase(url, async (database, client) => {
    const call = { name: "open.server", deadline: database.deadline({ signal }) };
    const { product, version } = await database.run(() => client.server(call), call);
    return `${product} ${version}`;
  });
}

async function clientOf(url: string): Promise<{ client: Client; dialect: Dialect }> {
  const family = familyOf(url);
  const path = url.slice(url.indexOf(":") + 1);
  switch (family) {
    case "sqlite":
      return { client: sqliteClient(path.replace(/^\/\//, "")), dialect: sqliteDialect };
    case "pglite":
      return { client: await pgliteClient(path), dialect: postgresqlDialect };
    case "postgresql":
      return { client: postgresClient(url), dialect: postgresqlDialect };
  }
}

function sqliteClient(path: string): Client {
  if (path === "") throw new InvalidArgumentError("Cannot open database: sqlite: needs a path");
  try {
    return new NodeSqliteClient(new DatabaseSync(path, { timeout: 0 }), { opened: true });
  } catch (error) {
    throw driverError(sqliteDialect.classify(error), "open.connect", error);
  }
}

async function pgliteClient(path: string): Promise<Client> {
  const { PGlite } = await import("@electric-sql/pglite");
  const client = new PgliteClient(new PGlite(path), { opened: true });
  await client.ready();
  return client;
}

function postgresClient(url: string): Client {
  const options = { max: 1, fetch_types: false, prepare: false, onnotice: () => {} };
  try {
    return new PostgresJsClient(postgres(url, options), {
      opened: true,
      exclusive: true,
      prepare: false,
    });
  } catch {
    // The driver's error shows the URL, which may hold a password.
    throw new InvalidArgumentError(
      "Cannot open database: the URL must be of the form postgres://host/database",
    );
  }
}
