/**
 * H2: its server of the PostgreSQL protocol, with one database, reachable as `sa` without a password.
 *
 * It runs in the `java` of `JAVA_HOME`, else in the one on the `PATH`, out of Debian's package or the
 * file `H2_JAR`.
 *
 * @module
 */
import { access } from "node:fs/promises";
import { basename, join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import postgres from "postgres";
import { launch } from "./launch.ts";
import { run } from "./process.ts";
import type { TestServer } from "./server.ts";

const name = "h2";

/** H2, as it is installed here. */
export const h2Server: TestServer = {
  name,

  async unavailable() {
    const { java, jar } = programs();
    try {
      await access(jar);
      await run([java, "-version"]);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return `H2 is not here: run tests/servers/install h2 (${reason.split("\n", 1)})`;
    }
  },

  async start({ durable = false } = {}) {
    const { java, jar } = programs();
    return await launch({
      name,
      signal: "KILL",
      prepare: (folder) =>
        Promise.resolve((port) => [
          java,
          // It is up sooner, and leaves more of the machine to the tests.
          "-XX:TieredStopAtLevel=1",
          "-XX:+UseSerialGC",
          "-Xmx256m",
          "-Dh2.bindAddress=127.0.0.1",
          "-cp",
          jar,
          fileURLToPath(new URL("H2Server.java", import.meta.url)),
          "-pgPort",
          String(port),
          "-ifNotExists",
          "-baseDir",
          join(folder, "data"),
        ]),
      urlAt: (port) => `h2://sa@127.0.0.1:${port}/fencepost`,
      ask: (url, folder) => setUp(url, { folder, durable }),
    });
  },
};

function programs(): { java: string; jar: string } {
  const { JAVA_HOME, H2_JAR } = process.env;
  return {
    java: JAVA_HOME ? join(JAVA_HOME, "bin", "java") : "java",
    jar: H2_JAR || "/usr/share/java/h2.jar",
  };
}

interface SetUpOptions {
  readonly folder: string;
  readonly durable: boolean;
}

/** Makes the database, which the first connection does, and gives the version of the server. */
async function setUp(
  url: string,
  { folder, durable }: SetUpOptions,
): Promise<string | undefined> {
  const { hostname: host, port, pathname, username } = new URL(url);
  const database = pathname.slice(1);
  const sql = postgres({
    host,
    port: Number(port),
    database,
    username,
    // As a text an empty one would give way to that of the environment.
    password: () => "",
    max: 1,
    prepare: false,
    fetch_types: false,
    connect_timeout: 5,
  });
  try {
    const [row] = await sql<{ version: string; path: string }[]>`
      select h2version() as version, database_path() as path`;
    if (!row?.path.includes(basename(folder))) return undefined;
    // Otherwise the database is closed with its last connection, and the next one has to open it.
    await sql.unsafe("set db_close_delay -1");
    if (durable) await sql.unsafe("set write_delay 0");
    return row.version;
  } finally {
    await sql.end({ timeout: 1 });
  }
}
