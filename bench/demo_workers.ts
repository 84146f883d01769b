/**
 * The worker processes of the demo, and what each has given back. A worker that ends before it has
 * reported, in whatever way but by `kill`, is an error that names it; and none outlives this process.
 *
 * @module
 */

import { type ChildProcess, spawn } from "node:child_process";
import process from "node:process";
import { clearTimeout, setTimeout } from "node:timers";
import { fileURLToPath } from "node:url";
import type { IdSet } from "./demo_ids.ts";
import { FrameReader, type WorkerReport, type WorkerSettings } from "./demo_pipe.ts";
import type { Share } from "./demo_report.ts";

/** What has come of a worker so far. */
type Received = { -readonly [Name in keyof Omit<Share, "number" | "report">]: Share[Name] };

/** How long a worker may take to notice that its pipe has closed, which it does between statements. */
const patienceMs = 300;

/** Every id that came, of each kind. */
export interface ReceivedIds {
  /** Of ranges. */
  readonly ranges: IdSet;
  /** Snowflake ids. */
  readonly snowflakes: IdSet;
}

/** A worker process. */
export class Worker {
  /** The id of its process, if that could be started. */
  readonly pid: number | undefined;
  /** Resolves when it can begin. */
  readonly ready: Promise<void>;
  /** Resolves when it has ended as it should or was killed, and all that it gave has arrived. */
  readonly done: Promise<Share>;
  /** What has arrived so far. */
  readonly received: Received = {
    slot: undefined,
    ids: 0,
    ranges: 0,
    smallest: Infinity,
    largest: 0,
    snowflakes: 0,
  };
  readonly #child: ChildProcess;
  readonly #closed: Promise<void>;
  #killed = false;

  /** Starts it. Every id that it gives is added to the set of its kind. */
  constructor(number: number, { settings, ids }: { settings: WorkerSettings; ids: ReceivedIds }) {
    const file = fileURLToPath(new URL("demo_worker.ts", import.meta.url));
    const args = "Deno" in globalThis ? ["run", "-A", "-q", file] : [file];
    const child = spawn(process.execPath, args, {
      stdio: "pipe",
      // Ctrl-C reaches all of a terminal's process group, and it is the demo that ends its workers.
      detached: process.platform !== "win32",
    });
    this.#child = child;
    this.pid = child.pid;
    const ready = Promise.withResolvers<void>();
    const done = Promise.withResolvers<Share>();
    const closed = Promise.withResolvers<void>();
    this.ready = ready.promise;
    this.done = done.promise;
    this.#closed = closed.promise;
    // A failure is told to whoever waits; nobody may be waiting yet, or any more.
    ready.promise.catch(() => {});
    done.promise.catch(() => {});

    let report: WorkerReport | undefined;
    let current = ids.ranges;
    let reason = "";
    let log = "";
    const reader = new FrameReader({
      onRange: (count, kind) => {
        current = kind === "range" ? ids.ranges : ids.snowflakes;
        if (kind === "range") this.#receiveRange(count);
        else this.received.snowflakes += count;
      },
      onId: (high, low) => current.add(high, low),
      onMessage: (message) => {
        if (message.type === "ready") ready.resolve();
        else if (message.type === "acquired") this.received.slot = message.slot;
        else if (message.type === "failed") reason = message.reason;
        else report = message.report;
      },
    });
    child.stdout.on("data", (piece: Uint8Array) => reader.push(piece));
    child.stderr.on("data", (piece: Uint8Array) => log = `${log}${piece}`.slice(-2_000));
    // One that has ended reads no more; that it has ended is told below.
    child.stdin.on("error", () => {});
    child.on("error", (error) => reason = error.message);
    child.on("close", (code, signal) => {
      closed.resolve();
      const ended = code === 0 && report !== undefined;
      const killed = this.#killed && signal === "SIGKILL";
      if (ended || killed) {
        return done.resolve({ ...this.received, number, report: ended ? report : undefined });
      }
      const end = signal === null ? `ended with code ${code}` : `was ended by ${signal}`;
      const why = reason || log.trim();
      const error = new Error(`process ${number} ${end}${why === "" ? "" : `: ${why}`}`);
      ready.reject(error);
      done.reject(error);
    });
    this.#tell(JSON.stringify(settings));
  }

  /** Lets it draw. */
  go(): void {
    this.#tell("go");
  }

  /** Lets it finish what it is about, report, and end. */
  stop(): void {
    this.#tell("stop");
  }

  /** Kills it wherever it is, so that it can report nothing. `done` resolves when it has ended. */
  kill(): void {
    this.#killed = true;
    this.#child.kill("SIGKILL");
  }

  /** Ends it at once, and resolves when it has ended. */
  async end(): Promise<void> {
    this.#child.stdin?.end();
    const killing = setTimeout(() => this.#child.kill("SIGKILL"), patienceMs);
    await this.#closed;
    clearTimeout(killing);
  }

  #receiveRange(count: number): void {
    const { received } = this;
    received.ranges++;
    received.ids += count;
    received.smallest = Math.min(received.smallest, count);
    received.largest = Math.max(received.largest, count);
  }

  #tell(line: string): void {
    this.#child.stdin?.write(`${line}\n`);
  }
}
