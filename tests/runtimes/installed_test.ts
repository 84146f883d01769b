/**
 * The npm package in the runtimes of its users, as they install it: what comes with it, whether its
 * entries load and its types check, a program over each driver, and every rule of the compatibility
 * kit.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { createConnection } from "mysql2/promise";
import postgres from "postgres";
import ts from "typescript";
import { type Database, databaseName, databases } from "../databases/mod.ts";
import { askedServers, askedServersVariable } from "../servers/asked.ts";
import { run } from "../servers/process.ts";
import type { ServerAddress } from "../servers/server.ts";
import { tckCases } from "../tck/mod.ts";
import { Installations, programs, programsOf } from "./installed.ts";
import { type KitProcess, startKit } from "./kit_process.ts";
import { askedRuntimes, type RuntimeAddress, runtimes } from "./mod.ts";

const installations = new Installations();
const asked = askedRuntimes();
const cases = tckCases.map(({ name }) => name);

Deno.test.afterAll(async () => {
  for (const kit of started.values()) await kit.then(({ stop }) => stop(), () => {});
  await installations.remove();
});

for (const runtime of asked) {
  Deno.test(`${runtime.name} › the package brings no other package with it`, async () => {
    const folder = await installations.alone(runtime);
    const modules = await readdir(join(folder, "node_modules"));
    assertEquals(modules.filter((name) => !name.startsWith(".")), ["@fencepost"]);
    assertEquals(await readdir(join(folder, "node_modules/@fencepost")), ["store"]);
  });

  Deno.test(`${runtime.name} › every entry loads without drivers, and names what is missing`, async () => {
    const folder = await installations.alone(runtime);
    const program = join(folder, "entries.mjs");
    const urls = [
      "postgres://localhost/shop",
      "mysql://localhost/shop",
      "mariadb://localhost/shop",
      "pglite:memory://",
      "sqlserver://localhost/shop",
      "sqlite::memory:",
    ];
    assertEquals((await run([runtime.executable, program, ...urls])).trim().split("\n"), [
      "postgres://localhost/shop DRIVER_MISSING",
      "mysql://localhost/shop DRIVER_MISSING",
      "mariadb://localhost/shop DRIVER_MISSING",
      "pglite:memory:// DRIVER_MISSING",
      "sqlserver://localhost/shop DRIVER_MISSING",
      `sqlite::memory: ${isWithout(runtime, "sqlite") ? "DRIVER_MISSING" : "opened"}`,
    ]);
  });

  for (const { name, url } of askedServers()) {
    for (const program of programsOf[name.replace(/-[\d.]+$/, "")] ?? []) {
      const through = databaseName(name, program, runtime.name);
      Deno.test(`${through} › a program reserves, and ends by itself`, async () => {
        const folder = await installations.withDrivers(runtime);
        await withDatabase(url, async (own) => {
          const command = [runtime.executable, join(folder, `${program}.mjs`), own];
          assertEquals(await run(command, { timeoutMs: 60_000 }), "1 to 1001\n");
        });
      });
    }
  }
}

for (const runtime of asked.slice(0, 1)) {
  Deno.test("programs over each driver type-check against the installed package", async () => {
    assertEquals(typeErrors(await installations.withDrivers(runtime)), []);
  });
}

/** The compatibility kit in a runtime, on a database and over a driver. */
interface Kit {
  readonly runtime: RuntimeAddress;
  readonly database: Database;
}

/** Each driver once: to a runtime the versions of a server, and a pooler before it, are the same. */
const perDriver = databases().filter(({ family, driver }, at, all) =>
  family !== "pgbouncer" &&
  all.findIndex((other) => other.family === family && other.driver === driver) === at
);

const kits: readonly Kit[] = asked.flatMap((runtime) =>
  perDriver
    .filter(({ server }) => !isWithout(runtime, server))
    .map((database) => ({ runtime, database }))
);
const started = new Map<Kit, Promise<KitProcess>>();

for (const kit of kits) {
  const { runtime, database } = kit;
  const name = databaseName(database.server, database.driver, runtime.name);
  for (const rule of cases) {
    Deno.test(`${name} › ${rule}`, async () => await (await processOf(kit)).passed(rule));
  }
  Deno.test(`${name} › the package has no other rule`, async () => {
    assertEquals(await (await processOf(kit)).unasked, []);
  });
}

/** The process of a kit. The next kit's is started with it: two run at a time. */
function processOf(kit: Kit): Promise<KitProcess> {
  const at = kits.indexOf(kit);
  for (const one of kits.slice(at, at + 2)) {
    if (started.has(one)) continue;
    const process = start(one);
    // Whoever asks for it is told.
    process.catch(() => {});
    started.set(one, process);
  }
  return started.get(kit) ?? start(kit);
}

async function start({ runtime, database }: Kit): Promise<KitProcess> {
  const folder = await installations.withDrivers(runtime);
  const server = askedServers().find(({ name }) => name === database.server);
  const own = server && { ...server, url: ownUrl(server, folder) };
  return startKit([runtime.executable, join(folder, "kit.mjs"), database.name], {
    cwd: folder,
    env: { [askedServersVariable]: JSON.stringify([own]) },
    cases,
  });
}

/** The URL of a server, or of an embedded database that no other process opens. */
function ownUrl({ url }: ServerAddress, folder: string): string {
  if (url.startsWith("pglite:")) return "pglite:memory://";
  return url.startsWith("sqlite:") ? `sqlite:${join(folder, crypto.randomUUID())}` : url;
}

function isWithout({ name }: RuntimeAddress, database: string): boolean {
  return runtimes.find((runtime) => runtime.name === name)?.without.includes(database) ?? false;
}

/** Lends an empty database on a server. */
async function withDatabase(url: string, work: (own: string) => Promise<void>): Promise<void> {
  const { run, drop, end } = url.startsWith("postgres:") ? onPostgresql(url) : await onMysql(url);
  const name = `shop_${crypto.randomUUID().replaceAll("-", "_")}`;
  try {
    await run(`create database ${name}`);
    const own = new URL(url);
    own.pathname = name;
    await work(own.href);
  } finally {
    await run(drop(name));
    await end();
  }
}

/** What makes and drops databases. */
interface Maker {
  run(statement: string): Promise<unknown>;
  drop(name: string): string;
  end(): Promise<void>;
}

function onPostgresql(url: string): Maker {
  const sql = postgres(url, { max: 1, fetch_types: false });
  return {
    run: (statement) => sql.unsafe(statement),
    drop: (name) => `drop database if exists ${name} with (force)`,
    end: () => sql.end(),
  };
}

async function onMysql(url: string): Promise<Maker> {
  const connection = await createConnection({ uri: url.replace(/^mariadb:/, "mysql:") });
  return {
    run: (statement) => connection.query(statement),
    drop: (name) => `drop database if exists ${name}`,
    end: () => connection.end(),
  };
}

/** What a strict TypeScript finds in the programs of a folder. */
function typeErrors(folder: string): string[] {
  const program = ts.createProgram(programs.map((program) => join(folder, `${program}.mts`)), {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    target: ts.ScriptTarget.ES2023,
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    typeRoots: [join(folder, "node_modules/@types")],
    types: ["node"],
  });
  return ts.getPreEmitDiagnostics(program).map(({ file, messageText }) =>
    `${file?.fileName ?? ""}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`
  );
}
