/**
 * A runtime whose clock a test moves.
 *
 * @module
 */

import type { Runtime, Timer } from "../../core/runtime.ts";

interface Pending {
  readonly atMs: number;
  readonly callback: () => void;
}

/** Time that stands still until it is moved. */
export class ManualRuntime implements Runtime {
  #nowMs = 0;
  #pending: Pending[] = [];

  /** How many timers are set. */
  get timers(): number {
    return this.#pending.length;
  }

  /** The host's clock. */
  wallMs(): number {
    return this.#nowMs;
  }

  /** The monotonic clock. */
  monotonicMs(): number {
    return this.#nowMs;
  }

  /** Sets a timer; it fires when the clock is moved to its time. */
  setTimer(callback: () => void, ms: number): Timer {
    const pending = { atMs: this.#nowMs + ms, callback };
    this.#pending.push(pending);
    return { cancel: () => void this.#remove(pending) };
  }

  /** The middle of all random numbers. */
  random(): number {
    return 0.5;
  }

  /** A random UUID. */
  uuid(): string {
    return crypto.randomUUID();
  }

  /** Moves the clock, and fires the timers that come due on the way, in their order. */
  advance(ms: number): void {
    const untilMs = this.#nowMs + ms;
    for (;;) {
      const [first] = this.#pending.toSorted((a, b) => a.atMs - b.atMs);
      if (first === undefined || first.atMs > untilMs) break;
      this.#remove(first);
      this.#nowMs = Math.max(this.#nowMs, first.atMs);
      first.callback();
    }
    this.#nowMs = untilMs;
  }

  #remove(pending: Pending): void {
    this.#pending = this.#pending.filter((other) => other !== pending);
  }
}
