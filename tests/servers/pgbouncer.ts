/**
 * PostgreSQL behind pgbouncer in transaction mode: a cluster of its own, and a pooler that gives a
 * client another of its few connections for each transaction. Named prepared statements do not
 * survive that in versions before 1.21.
 *
 * @module
 */
import { chown, writeFile } from "node:fs/promises";
import { join } from "node:path";
import postgres from "postgres";
import { postgresqlServer } from "./postgresql.ts";
import { run, startProcess } from "./process.ts";
import type { RunningServer, StartOptions, TestServer } from "./server.ts";
import { freePort, removeFolder, temporaryFolder } from "./temporary.ts";
import { runAs, unprivilegedOwner } from "./unprivileged.ts";
import { until } from "./until.ts";

const name = "pgbouncer";

/** Connections to the server, so few that clients get each other's. */
const poolSize = 6;

/** PostgreSQL 15 behind pgbouncer. */
export function pgbouncerServer(): TestServer {
  const server = postgresqlServer({ major: 15 });
  return {
    name,
    async unavailable() {
      const version = await askVersion().catch(() => undefined);
      return version === undefined
        ? "pgbouncer is not here: tests/servers/install pgbouncer"
        : await server.unavailable();
    },
    async start(options?: StartOptions) {
      const database = await server.start(options);
      try {
        return await startPooler(database);
      } catch (error) {
        await database.stop();
        throw error;
      }
    },
  };
}

async function askVersion(): Promise<string> {
  const text = await run(["pgbouncer", "--version"]);
  return /PgBouncer ([0-9.]+)/.exec(text)?.[1] ?? "unknown";
}

async function startPooler(database: RunningServer): Promise<RunningServer> {
  const folder = await temporaryFolder(name);
  const port = await freePort();
  const settings = join(folder, "pgbouncer.ini");
  const { hostname, port: databasePort } = new URL(database.url);
  await writeFile(
    settings,
    `[databases]
* = host=${hostname} port=${databasePort} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${poolSize}
max_client_conn = 1000
ignore_startup_parameters = extra_float_digits
`,
  );
  const owner = await unprivilegedOwner();
  if (owner !== undefined) await chown(folder, owner.uid, owner.gid);
  const pooler = startProcess([...runAs(owner), "pgbouncer", settings], { folder, signal: "TERM" });
  const url = new URL(database.url);
  url.port = String(port);
  try {
    await until(async () => {
      if (pooler.ended) throw new Error(`Cannot start ${name}:\n${await pooler.log()}`);
      return await answers(url.href) || undefined;
    }, { what: `${name} to be ready` });
  } catch (error) {
    await pooler.stop();
    await removeFolder(folder);
    throw error;
  }
  const stop = async () => {
    await pooler.stop();
    await database.stop();
  };
  return {
    name,
    url: url.href,
    version: await askVersion(),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

async function answers(url: string): Promise<boolean> {
  const sql = postgres(url, { max: 1, prepare: false, fetch_types: false, connect_timeout: 5 });
  try {
    await sql`select 1`;
    return true;
  } catch {
    return false;
  } finally {
    await sql.end();
  }
}
