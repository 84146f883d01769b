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

import { ConfigurationError, InvalidArgumentError } from "../core/errors.ts";
import { type RunningServer, servers } from "../tests/servers/mod.ts";
import { isRunning } from "../tests/servers/running.ts";
import { familyOf, onDatabase, type TargetFamily } from "./client.ts";

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
  const product = await onDatabase(
    url,
    (_, { product, version }) => Promise.resolve(`${product} ${version}`),
    { signal },
  );
  return { url, family, product, [Symbol.asyncDispose]: async () => {} };
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

const products: Readonly<Record<string, string>> = {
  postgresql: "PostgreSQL",
  pgbouncer: "PostgreSQL behind pgbouncer",
  mysql: "MySQL",
  mariadb: "MariaDB",
  sqlserver: "SQL Server",
  h2: "H2",
};

function startedProduct({ name, url, version }: RunningServer): string {
  if (name === "sqlite") return `SQLite ${version}, a file in a temporary folder`;
  if (name === "pglite") return `PGlite, PostgreSQL ${version}, in a temporary folder`;
  const product = products[name.replace(/-.*/, "")] ?? name;
  return `${product} ${version}${isRunning(url) ? "" : ", throwaway"}`;
}
