/**
 * Time and chance that stand still until a test moves them.
 *
 * @module
 */

import type { Runtime, Timer } from "../../core/runtime.ts";

/** Lets everything that is ready to run do so: microtasks, and what the event loop has received. */
export function settle(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(undefined);
  });
}

/** A runtime whose clocks and timers a test drives by hand. */
export class HandRuntime implements Runtime {
  /** What `random` gives, one after the other; then 0.5. */
  readonly chances: number[] = [];
  /** How long each timer was set for, in the order in which they were set. */
  readonly waits: number[] = [];
  #nowMs = 1_000;
  #timers = new Set<{ dueMs: number; callback: () => void }>();
  #uuids = 0;

  /** How many timers are set and have neither fired nor been cancelled. */
  get pending(): number {
    return this.#timers.size;
  }

  /** The host's clock. */
  wallMs(): number {
    return 1_700_000_000_000 + this.#nowMs;
  }

  /** The clock that only moves forward. */
  monotonicMs(): number {
    return this.#nowMs;
  }

  /** Calls back when the clock was moved far enough. */
  setTimer(callback: () => void, ms: number): Timer {
    this.waits.push(ms);
    const timer = { dueMs: this.#nowMs + ms, callback };
    this.#timers.add(timer);
    return { cancel: () => void this.#timers.delete(timer) };
  }

  /** The next of `chances`. */
  random(): number {
    return this.chances.shift() ?? 0.5;
  }

  /** A UUID that counts up. */
  uuid(): string {
    return `00000000-0000-4000-8000-${String(++this.#uuids).padStart(12, "0")}`;
  }

  /** Moves the clock and fires what became due, in order. */
  advance(ms: number): void {
    const endMs = this.#nowMs + ms;
    for (;;) {
      const [next] = [...this.#timers].filter(({ dueMs }) => dueMs <= endMs)
        .sort((a, b) => a.dueMs - b.dueMs);
      if (next === undefined) break;
      this.#nowMs = Math.max(this.#nowMs, next.dueMs);
      this.#timers.delete(next);
      next.callback();
    }
    this.#nowMs = endMs;
  }

  /** Fires the timers although the clock stands still, as a platform's timer may do. */
  fireEarly(): void {
    for (const timer of [...this.#timers]) {
      this.#timers.delete(timer);
      timer.callback();
    }
  }

  /** Moves the clock by a millisecond, as often as needed, until a promise has settled. */
  async drive<T>(promise: Promise<T>, atMostMs = 60_000): Promise<T> {
    let settled = false;
    const end = () => void (settled = true);
    promise.then(end, end);
    for (let ms = 0; ms < atMostMs; ms++) {
      await settle();
      if (settled) return await promise;
      this.advance(1);
    }
    throw new Error(`Cannot wait any longer for a promise: received nothing in ${atMostMs} ms`);
  }
}
