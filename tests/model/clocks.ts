/**
 * The clocks, timers and chance of one process, which the model moves.
 *
 * @module
 */

import type { Runtime, Timer } from "../../core/runtime.ts";

interface Pending {
  readonly dueMs: number;
  readonly callback: () => void;
}

/** A runtime whose clocks run as fast as the model says, and whose timers fire when it says. */
export class Clocks implements Runtime {
  /** How fast they run: 1 is true. */
  speed = { monotonic: 1, wall: 1 };
  #monotonicMs: number;
  #wallMs: number;
  #timers: Pending[] = [];
  #chance: number;
  readonly #uuid: () => string;

  /**
   * Makes one.
   *
   * @param start What the clocks are, and where chance and the texts that are unique come from.
   */
  constructor(
    start: { monotonicMs: number; wallMs: number; chance: number; uuid: () => string },
  ) {
    this.#monotonicMs = start.monotonicMs;
    this.#wallMs = start.wallMs;
    this.#chance = start.chance;
    this.#uuid = start.uuid;
  }

  /** The host's clock. */
  wallMs(): number {
    return Math.floor(this.#wallMs);
  }

  /** The clock that only moves forward. */
  monotonicMs(): number {
    return this.#monotonicMs;
  }

  /** Sets a timer, which runs as the monotonic clock does. */
  setTimer(callback: () => void, ms: number): Timer {
    const timer = { dueMs: this.#monotonicMs + Math.max(0, ms), callback };
    this.#timers.push(timer);
    return { cancel: () => this.#remove(timer), unref: () => {}, ref: () => {} };
  }

  /** A number from a fixed sequence. */
  random(): number {
    this.#chance = (Math.imul(this.#chance, 1_664_525) + 1_013_904_223) >>> 0;
    return this.#chance / 2 ** 32;
  }

  /** A text that is unique in the schedule. */
  uuid(): string {
    return this.#uuid();
  }

  /** In how much true time the first timer is due; Infinity if there is none, or the clock stands. */
  get dueInMs(): number {
    let dueMs = Infinity;
    for (const timer of this.#timers) if (timer.dueMs < dueMs) dueMs = timer.dueMs;
    if (dueMs <= this.#monotonicMs) return 0;
    // A little later than exactly, so that rounding leaves no timer just short of its time.
    return Math.ceil((dueMs - this.#monotonicMs) / this.speed.monotonic + 1e-6);
  }

  /** Lets true time pass. */
  pass(ms: number): void {
    this.#monotonicMs += ms * this.speed.monotonic;
    this.#wallMs += ms * this.speed.wall;
  }

  /** Sets the host's clock forward or back. */
  jump(ms: number): void {
    this.#wallMs += ms;
  }

  /** Fires the first of the timers that are due; false if none is. */
  fire(): boolean {
    let first: Pending | undefined;
    for (const timer of this.#timers) {
      if (timer.dueMs <= this.#monotonicMs && (first === undefined || timer.dueMs < first.dueMs)) {
        first = timer;
      }
    }
    if (first === undefined) return false;
    this.#remove(first);
    first.callback();
    return true;
  }

  #remove(timer: Pending): void {
    const index = this.#timers.indexOf(timer);
    if (index >= 0) this.#timers.splice(index, 1);
  }
}
