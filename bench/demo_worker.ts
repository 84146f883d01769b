/**
 * A worker of the demo: draws ranges until it is told to stop, and sends every id of them to the
 * demo. See demo_pipe.ts for what goes through the pipes.
 *
 * @module
 */

import process from "node:process";
import { createInterface } from "node:readline";
import { setImmediate } from "node:timers/promises";
import { openStore, type Range, type Store } from "../mod.ts";
import { idFrame, messageFrame, type WorkerMessage, type WorkerSettings } from "./demo_pipe.ts";

if (import.meta.main) {
  const input = createInterface({ input: process.stdin });
  input.on("close", () => process.exit(1));
  try {
    await work((received) => input.once("line", received));
    process.exit(0);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    await send(messageFrame({ type: "failed", reason }));
    process.exit(1);
  }
}

/** Calls back with the next line from the demo. */
type NextLine = (received: (line: string) => void) => void;

async function work(nextLine: NextLine): Promise<void> {
  const settings: WorkerSettings = JSON.parse(await new Promise<string>(nextLine));
  const report = { statements: 0, retries: 0, conflicts: 0, slowestMs: 0 };
  const { url, rangeTable } = settings;
  const store = await openStore(url, {
    rangeTable,
    onEvent(event) {
      if (event.type === "retry") report.retries++;
      else if (event.type === "conflict") report.conflicts++;
      else if (event.type === "reserve") {
        report.statements++;
        report.slowestMs = Math.max(report.slowestMs, event.durationMs);
      }
    },
  });
  await say({ type: "ready" });
  await new Promise<string>(nextLine);
  const stopping = new AbortController();
  nextLine(() => stopping.abort());
  const callers = Array.from({ length: settings.callers }, (_, caller) => caller);
  await Promise.all(
    callers.map((caller) => draw(store, { settings, caller, stopped: stopping.signal })),
  );
  await store.close();
  await say({ type: "done", report });
}

interface DrawOptions {
  readonly settings: WorkerSettings;
  /** From 0 up; each begins with another size. */
  readonly caller: number;
  readonly stopped: AbortSignal;
}

async function draw(store: Store, { settings, caller, stopped }: DrawOptions): Promise<void> {
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

function say(message: WorkerMessage): Promise<void> {
  return send(messageFrame(message));
}

/** Resolves when the pipe has taken it, so that a worker is never far ahead of the demo. */
function send(frame: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(frame, (error) => error ? reject(error) : resolve());
  });
}
