/**
 * Four processes draw ids from one key at once, and every id is checked: `deno task demo --help`
 * says how it is run.
 *
 * The processes give back every single id, and this one looks at each by its value. The last line
 * says how many there were and how many came twice; the exit code is 1 if any did, or if anything
 * else failed. On Ctrl-C or SIGTERM the processes end, the table is dropped and temporary files are
 * removed, within a second once the database runs.
 *
 * @module
 */

import process from "node:process";
import { clearInterval, setInterval } from "node:timers";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Identifier, openStore, sql, type Store } from "../mod.ts";
import { IdSet } from "./demo_ids.ts";
import { type Drawn, grouped, reportLines } from "./demo_report.ts";
import { Worker } from "./demo_workers.ts";
import { startProgress } from "./progress.ts";
import { listed, refusal } from "./arguments.ts";
import { familyOf, onDatabase } from "./client.ts";
import { openTarget, serverNames } from "./target.ts";

const processes = 4;
const callers = 4;
const sizes: readonly number[] = [1, 10, 100, 1_000];
const key = "demo";

/** PGlite, a database inside one process, cannot serve four. */
const allowedServers = serverNames.filter((name) => name !== "pglite");

const help = `\
deno task demo [URL | --server NAME] [--seconds N] [--plant-duplicate]

Four processes draw ids from one key at once, and every id is checked.

  URL                the database, such as postgres://user@host/database or
                     sqlite:file; without one, SQLite in a temporary folder
  --server NAME      starts a database that lasts as long as the demo, one of
                     ${listed(allowedServers, 21)}
  --seconds N        how long they draw, 6 unless given
  --plant-duplicate  gives one id out a second time, which has to be found
  --help             prints this

The demo creates a table of its own, named fencepost_demo_ and eight more
characters, and drops it when it ends, also on Ctrl-C. It touches no other.

It exits with 0; with 1 if an id came twice or something failed; with 2 if an
argument is wrong; with 130 if it was interrupted.`;

if (import.meta.main) {
  const interruption = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
    // Ctrl-C may come twice, from the terminal and from the program that runs the task.
    process.on(signal, () => interruption.abort());
  }
  process.exit(await main(process.argv.slice(2), interruption.signal));
}

interface DemoOptions {
  readonly url: string | undefined;
  readonly server: string | undefined;
  readonly seconds: number;
  readonly plantDuplicate: boolean;
}

/** Resolves with the exit code. */
async function main(args: readonly string[], interrupted: AbortSignal): Promise<number> {
  let options: DemoOptions | undefined;
  try {
    options = readArguments(args);
  } catch (error) {
    console.error(`demo: ${messageOf(error)}`);
    return 2;
  }
  if (options === undefined) {
    console.log(help);
    return 0;
  }
  try {
    return await demo(options, interrupted);
  } catch (error) {
    console.error(`demo: ${interrupted.aborted ? "interrupted" : messageOf(error)}`);
    return interrupted.aborted ? 130 : 1;
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Returns undefined if only help is wanted. */
function readArguments(args: readonly string[]): DemoOptions | undefined {
  const { values, positionals } = parse(args);
  if (values.help) return undefined;
  const { server, seconds: secondsText, "plant-duplicate": plantDuplicate } = values;
  const [url, ...others] = positionals;
  if (others.length > 0) throw new Error("there can be only one URL");
  if (url !== undefined && server !== undefined) {
    throw new Error("a URL and --server exclude each other");
  }
  if (server !== undefined && !allowedServers.includes(server)) {
    throw new Error(`--server must be one of ${allowedServers.join(", ")}: received "${server}"`);
  }
  if (url !== undefined && (familyOf(url) === "pglite" || /:memory:/i.test(url))) {
    throw new Error("a database inside one process cannot serve the four of the demo");
  }
  const seconds = Number(secondsText);
  if (!(seconds > 0 && seconds <= 3_600)) {
    throw new Error(`--seconds must be a number up to 3600: received "${secondsText}"`);
  }
  return { url, server, seconds, plantDuplicate };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        "server": { type: "string" },
        "seconds": { type: "string", default: "6" },
        "plant-duplicate": { type: "boolean", default: false },
        "help": { type: "boolean", default: false },
      },
    });
  } catch (error) {
    throw new Error(refusal(error));
  }
}

/** Resolves with the exit code. */
async function demo(options: DemoOptions, interrupted: AbortSignal): Promise<number> {
  const { url, server } = options;
  if (server !== undefined) console.log(`starting ${server}`);
  const target = await openTarget({ url, server, durable: true, signal: interrupted });
  try {
    console.log(target.product);
    return await demoOn(target.url, { ...options, interrupted });
  } finally {
    await target[Symbol.asyncDispose]();
  }
}

interface RunOptions extends DemoOptions {
  readonly interrupted: AbortSignal;
}

async function demoOn(url: string, options: RunOptions): Promise<number> {
  const { interrupted } = options;
  const rangeTable = `fencepost_demo_${crypto.randomUUID().slice(0, 8)}`;
  let store: Store | undefined;
  try {
    store = await openStore(url, { rangeTable, initSchema: true, signal: interrupted });
    console.log(`table ${rangeTable}, dropped at the end`);
    for (const warning of store.warnings) console.log(`warning: ${warning}`);
    const drawn = await draw({ url, rangeTable }, options);
    const state = await store.ranges.read(key, { signal: interrupted });
    await store.close();
    console.log();
    for (const line of reportLines(drawn, state?.nextValue ?? 1n)) console.log(line);
    return drawn.ids.duplicates.length === 0 ? 0 : 1;
  } finally {
    // Not awaited: a server that does not answer any more would hold up what follows.
    store?.close().catch(() => {});
    const timeoutMs = interrupted.aborted ? 600 : 5_000;
    await drop(rangeTable, { url, timeoutMs }).catch((error) => {
      if (store === undefined) return;
      console.error(`demo: the table ${rangeTable} is left behind: ${messageOf(error)}`);
    });
  }
}

async function drop(
  rangeTable: string,
  { url, timeoutMs }: { url: string; timeoutMs: number },
): Promise<void> {
  await onDatabase(url, async (database) => {
    const table = Identifier.parse(rangeTable, "rangeTable");
    const deadline = database.deadline({ timeoutMs });
    await database.query(sql`drop table if exists ${table}`, { name: "drop", deadline });
  });
}

async function draw(
  { url, rangeTable }: { url: string; rangeTable: string },
  { seconds, plantDuplicate, interrupted }: RunOptions,
): Promise<Drawn> {
  interrupted.throwIfAborted();
  const ids = new IdSet();
  const settings = { url, rangeTable, key, sizes, callers };
  const workers = Array.from({ length: processes }, (_, index) =>
    new Worker(index + 1, {
      settings: { ...settings, plantDuplicate: plantDuplicate && index === 0 },
      ids,
    }));
  const interruption = new Promise<never>((_, reject) => {
    interrupted.addEventListener("abort", () => reject(interrupted.reason));
  });
  try {
    await Promise.race([Promise.all(workers.map(({ ready }) => ready)), interruption]);
    const done = Promise.all(workers.map(({ done }) => done));
    console.log(
      `${processes} processes, ${callers} callers in each, draw ids from one key for ${seconds} s`,
    );
    const progress = startProgress("drawing ids", seconds * 1_000);
    const startedMs = performance.now();
    const timer = setInterval(() => {
      const received = workers.reduce((total, worker) => total + worker.received.ids, 0);
      progress.update(performance.now() - startedMs, `${grouped(received)} ids`);
    }, 100);
    try {
      for (const worker of workers) worker.go();
      await Promise.race([setTimeout(seconds * 1_000), done, interruption]);
      for (const worker of workers) worker.stop();
      const shares = await Promise.race([done, interruption]);
      return { shares, ids, durationMs: performance.now() - startedMs };
    } finally {
      clearInterval(timer);
      progress.end();
    }
  } finally {
    await Promise.all(workers.map((worker) => worker.end()));
  }
}
