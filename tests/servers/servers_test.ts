import { assert, assertEquals, assertMatch, assertNotEquals, assertRejects } from "@std/assert";
import { readdir } from "node:fs/promises";
import { connect } from "node:net";
import process from "node:process";
import { startTdsDatabase } from "../tds/database.ts";
import { askedServers } from "./asked.ts";
import { servers, type TestServer } from "./mod.ts";
import { h2Server } from "./h2.ts";
import { runningMariadb } from "./mariadb.ts";
import { mysqlServer, runningMysql } from "./mysql.ts";
import { runningPostgresql } from "./postgresql.ts";
import { run } from "./process.ts";
import { isRunning } from "./running.ts";
import { sqlserverServer } from "./sqlserver.ts";
import { removeFolder, temporaryFolder } from "./temporary.ts";
import { until } from "./until.ts";

const asked = askedServers().filter(({ url }) => URL.canParse(url) && new URL(url).port !== "");

function isListening(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port) });
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
    socket.once("connect", () => socket.destroy());
  });
}

/** Runs something with the environment changed. */
async function withEnvironment<T>(
  changes: Readonly<Record<string, string>>,
  work: () => Promise<T>,
): Promise<T> {
  const before = Object.keys(changes).map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, changes);
  try {
    return await work();
  } finally {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  }
}

for (const { name, version } of asked.filter(({ url }) => !isRunning(url))) {
  const server = servers.find((server) => server.name === name);
  if (server === undefined) throw new Error(`Cannot test ${name}: it is no server`);

  Deno.test(`${name} › two servers run side by side, relaxed and durable`, async () => {
    const [relaxed, durable] = await Promise.all([
      server.start(),
      server.start({ durable: true }),
    ]);
    assertEquals([relaxed.version, durable.version], [version, version]);
    assertNotEquals(relaxed.url, durable.url);
    await relaxed.stop();
    assertEquals([await isListening(relaxed.url), await isListening(durable.url)], [false, true]);
    await durable.stop();
    assertEquals(await isListening(durable.url), false);
  });

  Deno.test(`${name} › a server leaves nothing behind when its process is killed`, async () => {
    const folder = await temporaryFolder("killed");
    await run(["chmod", "755", folder]);
    const program = `
      import process from "node:process";
      import { servers } from ${JSON.stringify(new URL("mod.ts", import.meta.url).href)};
      const server = servers.find(({ name }) => name === ${JSON.stringify(name)});
      console.error("at", (await server.start()).url);
      process.kill(process.pid, "SIGKILL");
    `;
    const command = [process.execPath, "eval", "--no-lock", program];
    const killed = () => assertRejects(() => run(command), Error);
    const { message } = await withEnvironment({ TMPDIR: folder }, killed);
    assertMatch(message, /at \w+:\/\/\w+@127/);
    // The folder goes last, after the process has ended.
    const isEmpty = async () => (await readdir(folder)).length === 0 || undefined;
    await until(isEmpty, { what: "the server to end and its folder to go" });
    await removeFolder(folder);
  });
}

const running: Readonly<Record<string, () => Promise<TestServer | undefined>>> = {
  POSTGRESQL_URL: runningPostgresql,
  MYSQL_URL: runningMysql,
  MARIADB_URL: runningMariadb,
  SQLSERVER_URL: sqlserverServer,
};

function variableOf(name: string): string {
  return `${name.replace(/-.*/, "").toUpperCase()}_URL`;
}

for (const { name, url, version } of asked) {
  const variable = variableOf(name);
  const find = running[variable];
  if (find === undefined) continue;
  Deno.test(`${name} › a server that runs already has its own name, and goes on`, async () => {
    const server = await withEnvironment({ [variable]: url }, find);
    const used = await server?.start();
    await used?.stop();
    const { name: named, url: at, version: reported } = used ?? {};
    assertEquals([server?.name, named, at, reported], [name, name, url, version]);
    assert(await isListening(url));
  });
}

Deno.test("SQLSERVER_URL names a server that is asked for its version", async () => {
  await using database = await startTdsDatabase();
  const columns = [{ name: "version", type: "nvarchar" }] as const;
  database.interfere = () => ({ results: [{ columns, rows: [["16.0.4100.1"]] }] });
  const server = await withEnvironment({ SQLSERVER_URL: database.url }, sqlserverServer);
  const { name, url, version } = await server.start();
  assertEquals([name, url, version], ["sqlserver", database.url, "16.0.4100.1"]);
});

for (const [variable, find] of Object.entries(running)) {
  Deno.test(`${variable} that leads nowhere is told in one line, without its password`, async () => {
    const family = variable.split("_", 1).join().toLowerCase();
    const scheme = family.replace("postgresql", "postgres");
    for (const url of [`${scheme}://u:s3cr3t@127.0.0.1:1/shop`, "//u:s3cr3t@127.0.0.1"]) {
      const server = await withEnvironment({ [variable]: url }, find);
      assertEquals(server?.name, family);
      const reason = await server?.unavailable() ?? "";
      assertMatch(reason, new RegExp(`^${variable} names no server that can be used: [^\\n]+$`));
      assert(!reason.includes("s3cr3t"), reason);
    }
  });
}

Deno.test("what is missing is told in one line, with the command that installs it", async () => {
  const missing = { FENCEPOST_MYSQL: "/none", H2_JAR: "/none", PATH: "/none", SQLSERVER_URL: "" };
  await withEnvironment(missing, async () => {
    assertMatch(await mysqlServer.unavailable() ?? "", /^.* tests\/servers\/install mysql \(.*\)$/);
    assertMatch(await h2Server.unavailable() ?? "", /^.* tests\/servers\/install h2 \(.*\)$/);
    const sqlserver = await sqlserverServer();
    assertMatch(await sqlserver.unavailable() ?? "", /^.* SQLSERVER_URL=sqlserver:.*$/);
  });
});
