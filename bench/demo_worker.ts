/**
 * A worker of the demo: draws ranges and snowflake ids until it is told to stop, and sends every id
 * to the demo. See demo_pipe.ts for what goes through the pipes.
 *
 * @module
 */

import process from "node:process";
import { createInterface, type Interface } from "node:readline";
import { setImmediate, setTimeout } from "node:timers/promises";
import { openStore, type Range, type SnowflakeIds, type Store } from "../mod.ts";
import {
  idFrame,
  messageFrame,
  snowflakeFrame,
  type WorkerMessage,
  type WorkerSettings,
} from "./demo_pipe.ts";

/** Between batches of snowflake ids: every one is looked at, and there would be millions a second. */
const pauseMs = 10;

if (import.meta.main) {
  const input = createInterface({ input: process.stdin });
  input.on("close", () => process.exit(1));
  try {
    await work(linesOf(input));
    process.exit(0);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    await send(messageFrame({ type: "failed", reason }));
    process.exit(1);
  }
}

/** What the demo says, each when it has been said. */
interface Told {
  readonly settings: Promise<WorkerSettings>;
  readonly going: Promise<void>;
  readonly stopped: AbortSignal;
}

/** Several lines may come at once. */
function linesOf(input: Interface): Told {
  const settings = Promise.withResolvers<WorkerSettings>();
  const going = Promise.withResolvers<void>();
  const stopping = new AbortController();
  input.on("line", (line) => {
    if (line === "go") going.resolve();
    else if (line === "stop") stopping.abort();
    else settings.resolve(JSON.parse(line));
  });
  return { settings: settings.promise, going: going.promise, stopped: stopping.signal };
}

async function work(told: Told): Promise<void> {
  const settings = await told.settings;
  const report = { reserved: 0, statements: 0, retries: 0, conflicts: 0, slowestMs: 0 };
  const { url, tables, namespace, limit, ownerKey } = settings;
  const store = await openStore(url, {
    ...tables,
    onEvent(event) {
      if (event.type === "retry") report.retries++;
      else if (event.type === "conflict") report.conflicts++;
      else if (event.type === "reserve") {
        report.reserved += Number(event.end - event.start);
        report.statements++;
        report.slowestMs = Math.max(report.slowestMs, event.durationMs);
      }
    },
  });
  const snowflakes = await store.snowflakeIds({ namespace, limit, ownerKey });
  await say({ type: "acquired", slot: snowflakes.hold.lease.slot });
  await say({ type: "ready" });
  await told.going;
  const { stopped } = told;
  const callers = Array.from({ length: settings.callers }, (_, caller) => caller);
  await Promise.all([
    ...callers.map((caller) => drawRanges(store, { settings, caller, stopped })),
    drawSnowflakes(snowflakes, { settings, stopped }),
  ]);
  await snowflakes.close();
  await store.close();
  await say({ type: "done", report });
}

interface DrawOptions {
  readonly settings: WorkerSettings;
  readonly stopped: AbortSignal;
}

interface DrawRangesOptions extends DrawOptions {
  /** From 0 up; each begins with another size. */
  readonly caller: number;
}

async function drawRanges(
  store: Store,
  { settings, caller, stopped }: DrawRangesOptions,
): Promise<void> {
  const { key, sizes, plantDuplicate } = settings;
  let turn = caller;
  let latest: Range;
  do {
    latest = await store.ranges.reserve(key, sizes[turn++ % sizes.length] ?? 1);
    await send(idFrame(latest.start, latest.end));
    // A reserve from a free SQLite file never waits for the event loop, which brings the stop.
    await setImmediate();
  } while (!stopped.aborted);
  if (plantDuplicate && caller === 0) await send(idFrame(latest.end - 1n, latest.end));
}

async function drawSnowflakes(
  snowflakes: SnowflakeIds,
  { settings: { batch, plantDuplicate }, stopped }: DrawOptions,
): Promise<void> {
  let latest: bigint[];
  do {
    latest = await snowflakes.nextMany(batch);
    await send(snowflakeFrame(latest));
    await setTimeout(pauseMs);
  } while (!stopped.aborted);
  if (plantDuplicate) await send(snowflakeFrame(latest.slice(-1)));
}

function say(message: WorkerMessage): Promise<void> {
  return send(messageFrame(message));
}

/** Resolves when the pipe has taken it, so that a worker is never far ahead of the demo. */
function send(frame: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(frame, (error) => error ? reject(error) : resolve());
  });
}
