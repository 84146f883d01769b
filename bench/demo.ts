/**
 * Four processes draw ids at once, from one key of ranges and as snowflake ids, and every id is
 * checked: `deno task demo --help` says how it is run.
 *
 * The processes give back every single id, and this one looks at each by its value. Midway it kills
 * one of them and starts another under the same owner key, which takes the slot over at once though
 * its lease has not expired. The last line says how many ids there were and how many came twice; the
 * exit code is 1 if any did, or if anything else failed. On Ctrl-C or SIGTERM the processes end, the
 * tables are dropped and temporary files are removed, within a second once the database runs.
 *
 * @module
 */

import process from "node:process";
import { clearInterval, setInterval } from "node:timers";
import { setTimeout } from "node:timers/promises";
import { parseArgs } from "node:util";
import { Identifier, openStore, sql, type Store, type TableOptions } from "../mod.ts";
import { IdSet } from "./demo_ids.ts";
import { type Drawn, grouped, reportLines } from "./demo_report.ts";
import { type ReceivedIds, Worker } from "./demo_workers.ts";
import { startProgress } from "./progress.ts";
import { listed, refusal } from "./arguments.ts";
import { familyOf, onDatabase } from "./client.ts";
import { openTarget, serverNames } from "./target.ts";

const processes = 4;
const callers = 4;
const sizes: readonly number[] = [1, 10, 100, 1_000];
const key = "demo";
const namespace = "demo";
/** How many snowflake ids a process draws at once: at most two milliseconds' worth. */
const batch = 1_000;
/** The process that is killed. */
const victim = 2;

/** PGlite, a database inside one process, cannot serve four. */
const allowedServers = serverNames.filter((name) => name !== "pglite");

const help = `\
deno task demo [URL | --server NAME] [--seconds N] [--plant-duplicate]

Four processes draw ids at once: range ids from one key, and snowflake ids from
a slot that each holds. Midway one is killed and another takes its place and its
slot. Every id is checked.

  URL                the database, such as postgres://user@host/database or
                     sqlite:file; without one, SQLite in a temporary folder
  --server NAME      starts a database that lasts as long as the demo, one of
                     ${listed(allowedServers, 21)}
  --seconds N        how long they draw, 6 unless given
  --plant-duplicate  gives a range id and a snowflake id out a second time,
                     which has to be found
  --help             prints this

The demo creates three tables of its own, whose names begin with fencepost_demo_
and eight more characters, and drops them when it ends, also on Ctrl-C. It
touches no other.

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
  const tables = {
    rangeTable,
    slotTable: `${rangeTable}_slot`,
    namespaceTable: `${rangeTable}_namespace`,
  };
  let store: Store | undefined;
  try {
    store = await openStore(url, { ...tables, initSchema: true, signal: interrupted });
    console.log(`tables ${rangeTable}, …_slot and …_namespace, dropped at the end`);
    for (const warning of store.warnings) console.log(`warning: ${warning}`);
    const drawn = await draw({ url, tables }, options);
    const state = await store.ranges.read(key, { signal: interrupted });
    await store.close();
    console.log();
    for (const line of reportLines(drawn, state?.nextValue ?? 1n)) console.log(line);
    const { ranges, snowflakes } = drawn.ids;
    return ranges.duplicates.length + snowflakes.duplicates.length === 0 ? 0 : 1;
  } finally {
    // Not awaited: a server that does not answer any more would hold up what follows.
    store?.close().catch(() => {});
    const timeoutMs = interrupted.aborted ? 600 : 5_000;
    await drop(tables, { url, timeoutMs }).catch((error) => {
      if (store === undefined) return;
      console.error(`demo: tables ${rangeTable}… may be left behind: ${messageOf(error)}`);
    });
  }
}

async function drop(
  tables: Required<TableOptions>,
  { url, timeoutMs }: { url: string; timeoutMs: number },
): Promise<void> {
  await onDatabase(url, async (database) => {
    const deadline = database.deadline({ timeoutMs });
    for (const [option, name] of Object.entries(tables)) {
      const table = Identifier.parse(name, option);
      await database.query(sql`drop table if exists ${table}`, { name: "drop", deadline });
    }
  });
}

async function draw(
  { url, tables }: { url: string; tables: Required<TableOptions> },
  { seconds, plantDuplicate, interrupted }: RunOptions,
): Promise<Drawn> {
  interrupted.throwIfAborted();
  const ids: ReceivedIds = { ranges: new IdSet(), snowflakes: new IdSet() };
  const workers: Worker[] = [];
  const start = (number: number, ownerKey = `process ${number}`): Worker => {
    const drawing = { key, sizes, callers, namespace, limit: processes, ownerKey, batch };
    const settings = { url, tables, ...drawing, plantDuplicate: plantDuplicate && number === 1 };
    const worker = new Worker(number, { settings, ids });
    workers.push(worker);
    return worker;
  };
  const interruption = new Promise<never>((_, reject) => {
    interrupted.addEventListener("abort", () => reject(interrupted.reason));
  });
  /** Waits, but no longer than all processes live that have to. */
  const whileDrawing = <T>(event: Promise<T>): Promise<T> => {
    const failure = Promise.all(workers.map(({ done }) => done)).then(() => event);
    return Promise.race([event, failure, interruption]);
  };
  try {
    for (let number = 1; number <= processes; number++) start(number);
    await whileDrawing(Promise.all(workers.map(({ ready }) => ready)));
    console.log(`${processes} processes, ${callers} callers in each, draw ids for ${seconds} s;`);
    console.log(`process ${victim} is killed midway, and process ${processes + 1} takes its slot`);
    const progress = startProgress("drawing ids", seconds * 1_000);
    const startedMs = performance.now();
    const sinceMs = () => performance.now() - startedMs;
    const untilMs = (ms: number) => whileDrawing(setTimeout(Math.max(0, ms - sinceMs())));
    const timer = setInterval(() => progress.update(sinceMs(), noteOf(workers)), 100);
    try {
      for (const worker of workers) worker.go();
      await untilMs(seconds * 500);
      const killed = workers[victim - 1];
      killed?.kill();
      const killedMs = sinceMs();
      await whileDrawing(Promise.resolve(killed?.done));
      // Only now, for no two that live may have one owner key.
      const next = start(processes + 1, `process ${victim}`);
      await whileDrawing(next.ready);
      next.go();
      const begunMs = sinceMs();
      await untilMs(seconds * 1_000);
      for (const worker of workers) worker.stop();
      const shares = await Promise.race([
        Promise.all(workers.map(({ done }) => done)),
        interruption,
      ]);
      return {
        shares,
        ids,
        processes,
        mostUnderWay: callers * Math.max(...sizes),
        replaced: { killedMs, begunMs },
        durationMs: sinceMs(),
      };
    } finally {
      clearInterval(timer);
      progress.end();
    }
  } finally {
    await Promise.all(workers.map((worker) => worker.end()));
  }
}

function noteOf(workers: readonly Worker[]): string {
  const received = workers.reduce(
    (sum, { received: { ids, snowflakes } }) => sum + ids + snowflakes,
    0,
  );
  return `${grouped(received)} ids${workers.length > processes ? `, ${victim} was killed` : ""}`;
}
