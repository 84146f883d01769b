/**
 * MySQL: a server of its own per start, for 400 connections, reachable as `root` without a password.
 *
 * Its program is the one that `tests/servers/install mysql` puts into the folder `FENCEPOST_MYSQL`,
 * by default `fencepost/mysql` in the user's folder for caches, else the `mysqld` on the `PATH`. The
 * former comes with data that are only copied, which takes a third of the time that it takes to make
 * them. `MYSQL_URL` names a server that runs already: see running.ts.
 *
 * @module
 */
import { access, cp } from "node:fs/promises";
import { homedir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import process from "node:process";
import { baseOptions, introduce, seriesOf, serverOptions } from "./innodb.ts";
import { launch } from "./launch.ts";
import { run } from "./process.ts";
import { runningServer } from "./running.ts";
import type { TestServer } from "./server.ts";

const series = "9.7";
const name = `mysql-${series}`;

/** MySQL, as it is installed here. */
export const mysqlServer: TestServer = {
  name,

  async unavailable() {
    try {
      await findProgram();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return `MySQL ${series} is not here: run tests/servers/install mysql (${reason})`;
    }
  },

  async start({ durable = false } = {}) {
    const program = await findProgram();
    return await launch({
      name,
      signal: "KILL",
      async prepare(folder) {
        await makeData(program, folder);
        const options = await serverOptions({ folder, durable });
        return (port) => [program, ...options(port), "--mysqlx=OFF", "--secure-file-priv=NULL"];
      },
      urlAt: (port) => `mysql://root@127.0.0.1:${port}/fencepost`,
      async ask(url, folder) {
        const { version, livesIn } = await introduce(url);
        return livesIn(folder) ? version : undefined;
      },
    });
  },
};

/** The MySQL that `MYSQL_URL` names. */
export function runningMysql(): Promise<TestServer | undefined> {
  return runningServer({
    variable: "MYSQL_URL",
    family: "mysql",
    async ask(url) {
      const { version, mariadb } = await introduce(url);
      if (mariadb) throw new Error("it is a MariaDB: use MARIADB_URL");
      return version;
    },
    nameOf: (version) => `mysql-${seriesOf(version)}`,
  });
}

async function findProgram(): Promise<string> {
  const { FENCEPOST_MYSQL, XDG_CACHE_HOME, PATH = "" } = process.env;
  const caches = XDG_CACHE_HOME || join(homedir(), ".cache");
  const installed = FENCEPOST_MYSQL || join(caches, "fencepost", "mysql");
  const onPath = PATH.split(delimiter).filter((folder) => folder !== "");
  let found = "there is none";
  for (const folder of [installed, ...onPath]) {
    const program = join(folder, "mysqld");
    if (!await isThere(program)) continue;
    const version = await run([program, "--version"]).catch((error) => String(error));
    if (/ Ver ([\d.]+)(?!.*MariaDB)/.exec(version)?.[1]?.startsWith(`${series}.`)) return program;
    found = `${program} is not`;
  }
  throw new Error(found);
}

async function makeData(program: string, folder: string): Promise<void> {
  const prepared = join(dirname(program), "data");
  if (await isThere(prepared)) {
    await cp(prepared, join(folder, "data"), { recursive: true });
    return;
  }
  await run([program, ...baseOptions(folder), "--initialize-insecure"]);
}

function isThere(path: string): Promise<boolean> {
  return access(path).then(() => true, () => false);
}
