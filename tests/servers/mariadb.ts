/**
 * MariaDB: a server of its own per start, for 400 connections, reachable as `root` without a
 * password. Its programs are those on the `PATH` and in `/usr/sbin`, as Debian has them.
 * `MARIADB_URL` names a server that runs already: see running.ts.
 *
 * @module
 */
import { baseOptions, introduce, seriesOf, serverOptions } from "./innodb.ts";
import { launch } from "./launch.ts";
import { run } from "./process.ts";
import { runningServer } from "./running.ts";
import type { TestServer } from "./server.ts";

const series = "10.11";
const name = `mariadb-${series}`;

/** MariaDB, as it is installed here. */
export const mariadbServer: TestServer = {
  name,

  async unavailable() {
    try {
      await findProgram();
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return `MariaDB ${series} is not here: run tests/servers/install mariadb (${reason})`;
    }
  },

  async start({ durable = false } = {}) {
    const program = await findProgram();
    return await launch({
      name,
      signal: "KILL",
      async prepare(folder) {
        await run([
          "mariadb-install-db",
          ...baseOptions(folder),
          "--auth-root-authentication-method=normal",
          "--skip-test-db",
        ]);
        const options = await serverOptions({ folder, durable });
        return (port) => [program, ...options(port)];
      },
      urlAt: (port) => `mariadb://root@127.0.0.1:${port}/fencepost`,
      async ask(url, folder) {
        const { version, livesIn } = await introduce(url);
        return livesIn(folder) ? version : undefined;
      },
    });
  },
};

/** The MariaDB that `MARIADB_URL` names. */
export function runningMariadb(): Promise<TestServer | undefined> {
  return runningServer({
    variable: "MARIADB_URL",
    family: "mariadb",
    async ask(url) {
      const { version, mariadb } = await introduce(url);
      if (!mariadb) throw new Error("it is no MariaDB: use MYSQL_URL");
      return version;
    },
    nameOf: (version) => `mariadb-${seriesOf(version)}`,
  });
}

async function findProgram(): Promise<string> {
  let found = "there is none";
  // Debian's users do not have /usr/sbin on their PATH.
  for (const program of ["mariadbd", "/usr/sbin/mariadbd"]) {
    const version = await run([program, "--version"]).catch(() => "");
    if (version.includes(` Ver ${series}.`)) return program;
    if (version !== "") found = `there is ${version.trim()}`;
  }
  throw new Error(found);
}
