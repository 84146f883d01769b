/**
 * Time and chance, as the library sees them, and the deadline of a call.
 *
 * Every wait, retry and random choice goes through a {@linkcode Runtime}, so that a test can own
 * time. A {@linkcode Deadline} is made when a call starts and covers all that the call does: waiting
 * for its turn, every attempt, every statement.
 *
 * @module
 */

import { TimeoutError } from "./errors.ts";

/** A timer that was set. */
export interface Timer {
  /** Ends it; nothing happens if it has fired already. */
  cancel(): void;
}

/** Time and chance. The default is the system's. */
export interface Runtime {
  /** The host's clock, in milliseconds since the epoch. */
  wallMs(): number;
  /** A clock that only moves forward, in milliseconds from any origin. */
  monotonicMs(): number;
  /** Calls back once after some milliseconds. */
  setTimer(callback: () => void, ms: number): Timer;
  /** A random number from 0 up to, not including, 1. */
  random(): number;
  /** A random UUID. */
  uuid(): string;
}

/** The runtime that is used unless another is given: the clocks and timers of the platform. */
export const systemRuntime: Runtime = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  setTimer(callback: () => void, ms: number): Timer {
    const timer = setTimeout(callback, ms);
    return { cancel: () => clearTimeout(timer) };
  },
  random: () => Math.random(),
  uuid: () => crypto.randomUUID(),
};

/** What every call of the store takes. */
export interface CallOptions {
  /**
   * How long the call may take, in milliseconds, from 1 to 2,147,483,647; the store's `timeoutMs`
   * unless given.
   */
  timeoutMs?: number;
  /** Ends the call early; it rejects with the signal's reason. */
  signal?: AbortSignal;
}

/** When a call must have ended: at a time on the monotonic clock, or when its signal aborts. */
export class Deadline {
  /** The time that the call was given, in milliseconds. */
  readonly timeoutMs: number;
  /** When the time runs out, on the runtime's monotonic clock. */
  readonly atMs: number;
  /** The signal that ends the call early. */
  readonly signal: AbortSignal | undefined;
  /** The clock and timers that it goes by. */
  readonly runtime: Runtime;
  #listeners: (() => void)[] = [];
  #timer: Timer | undefined;

  /**
   * Starts the time of a call.
   *
   * @param runtime The clock and timers.
   * @param options The time that is given, and the signal that ends it early.
   */
  constructor(runtime: Runtime, options: { timeoutMs: number; signal?: AbortSignal }) {
    this.runtime = runtime;
    this.timeoutMs = options.timeoutMs;
    this.atMs = runtime.monotonicMs() + options.timeoutMs;
    this.signal = options.signal;
  }

  /** The milliseconds that are left; 0 once it is over. */
  get remainingMs(): number {
    if (this.signal?.aborted) return 0;
    return Math.max(0, this.atMs - this.runtime.monotonicMs());
  }

  /** Whether the time ran out or the signal aborted. */
  get over(): boolean {
    return this.remainingMs === 0;
  }

  /**
   * What a call rejects with when its deadline is over: the signal's reason, or a `TimeoutError`.
   *
   * @param action What was to be done, such as "run range.reserve".
   * @param outcome Whether a statement was under way.
   */
  error(action: string, outcome: "nothing" | "unknown"): unknown {
    return this.signal?.aborted
      ? this.signal.reason
      : new TimeoutError(action, { timeoutMs: this.timeoutMs, outcome });
  }

  /** Throws if it is over, before anything was sent. */
  check(action: string): void {
    if (this.over) throw this.error(action, "nothing");
  }

  /**
   * Calls back once when it is over, at once if it is already.
   *
   * @param listener What to call.
   * @returns A function that takes the listener back.
   */
  onOver(listener: () => void): () => void {
    if (this.over) {
      listener();
      return () => {};
    }
    if (this.#listeners.push(listener) === 1) {
      this.#timer = this.runtime.setTimer(this.#fire, this.remainingMs);
      this.signal?.addEventListener("abort", this.#fire);
    }
    return () => this.#remove(listener);
  }

  /**
   * Settles as the promise does, or rejects when the deadline is over, whichever comes first.
   *
   * @param action What is being done, for the error.
   * @param promise A statement that is under way.
   */
  race<T>(action: string, promise: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const remove = this.onOver(() => reject(this.error(action, "unknown")));
      promise.then(
        (value) => (remove(), resolve(value)),
        (error) => (remove(), reject(error)),
      );
    });
  }

  /**
   * Waits, but not past the deadline: rejects when it is over.
   *
   * @param ms How long to wait.
   * @param action What the wait is for, for the error.
   */
  async sleep(ms: number, action: string): Promise<void> {
    await new Promise<void>((resolve) => {
      const done = () => {
        timer.cancel();
        remove();
        resolve();
      };
      const timer = this.runtime.setTimer(done, ms);
      let remove = () => {};
      remove = this.onOver(done);
    });
    this.check(action);
  }

  readonly #fire = (): void => {
    // A timer may fire a little early; the deadline is what the clock says.
    if (!this.over) {
      this.#timer = this.runtime.setTimer(this.#fire, Math.ceil(this.remainingMs));
      return;
    }
    const listeners = this.#listeners;
    this.#listeners = [];
    this.#disarm();
    for (const listener of listeners) listener();
  };

  #remove(listener: () => void): void {
    const index = this.#listeners.indexOf(listener);
    if (index < 0) return;
    this.#listeners.splice(index, 1);
    if (this.#listeners.length === 0) this.#disarm();
  }

  #disarm(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.signal?.removeEventListener("abort", this.#fire);
  }
}
