/**
 * Time and chance, as the library sees them, and the deadline of a call.
 *
 * Every wait, retry and random choice goes through a {@linkcode Runtime}, so that a test can own
 * time. A {@linkcode Deadline} is made when a call starts and covers all that the call does: waiting
 * for its turn, every attempt, every statement.
 *
 * @module
 */

import { type FencepostError, TimeoutError } from "./errors.ts";

/** A timer that was set. */
export interface Timer {
  /** Ends it; nothing happens if it has fired already. */
  cancel(): void;
  /** Lets the process end before it fires, where the platform can. */
  unref?(): void;
  /** Takes `unref` back. */
  ref?(): void;
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
    const cancel = () => clearTimeout(timer);
    // An object with `ref` and `unref`, or on some platforms a number.
    const handle: { ref?(): void; unref?(): void } = Object(timer);
    if (handle.unref === undefined) return { cancel };
    return { cancel, ref: () => handle.ref?.(), unref: () => handle.unref?.() };
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

/**
 * When a call must have ended: at a time on the monotonic clock, or when its signal aborts.
 *
 * What waits for it is told by one timer that all deadlines of an owner share, since a timer for each
 * call would cost more than all else that the library does for it. A store is the owner of those of its
 * calls. Two stores share none: on edge workers a timer ends with the request that set it.
 */
export class Deadline {
  /** The time that the call was given, in milliseconds. */
  readonly timeoutMs: number;
  /** When the time runs out, on the runtime's monotonic clock. */
  readonly atMs: number;
  /** The signal that ends the call early. */
  readonly signal: AbortSignal | undefined;
  /** The clock and timers that it goes by. */
  readonly runtime: Runtime;
  /** What it shares its timer with. */
  readonly owner: object;
  /** What the call waits for, as the error to reject with if its time runs out meanwhile. */
  blockedBy: FencepostError | undefined;

  /**
   * Starts the time of a call.
   *
   * @param runtime The clock and timers.
   * @param options The time that is given, the signal that ends it early, and what it shares its timer
   * with: nothing unless an owner is given.
   */
  constructor(
    runtime: Runtime,
    options: { timeoutMs: number; signal?: AbortSignal; owner?: object },
  ) {
    this.runtime = runtime;
    this.timeoutMs = options.timeoutMs;
    this.atMs = runtime.monotonicMs() + options.timeoutMs;
    this.signal = options.signal;
    this.owner = options.owner ?? this;
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
   * What a call rejects with when its deadline is over: the signal's reason, what it is blocked by,
   * or a `TimeoutError`.
   *
   * @param name The name of the statement, such as "range.reserve".
   * @param outcome Whether it was under way.
   */
  error(name: string, outcome: "nothing" | "unknown"): unknown {
    if (this.signal?.aborted) return this.signal.reason;
    return this.blockedBy ??
      new TimeoutError(`run ${name}`, { timeoutMs: this.timeoutMs, outcome });
  }

  /** Throws if it is over, before a statement was sent. */
  check(name: string): void {
    if (this.over) throw this.error(name, "nothing");
  }

  /**
   * Calls back once when it is over.
   *
   * @param listener What to call.
   * @returns What is waiting, to be ended when it waits no longer.
   */
  onOver(listener: () => void): Waiter {
    return new Entry(this, listener);
  }

  /**
   * Settles as the promise does, or rejects when the deadline is over, whichever comes first.
   *
   * @param name The name of the statement that is under way.
   * @param promise Its result.
   */
  race<T>(name: string, promise: PromiseLike<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const waiter = this.onOver(() => reject(this.error(name, "unknown")));
      promise.then(
        (value) => (waiter.end(), resolve(value)),
        (error) => (waiter.end(), reject(error)),
      );
    });
  }

  /**
   * Waits, but not past the deadline: rejects when it is over.
   *
   * @param ms How long to wait.
   * @param name The name of the statement that waits.
   */
  async sleep(ms: number, name: string): Promise<void> {
    this.check(name);
    await new Promise<void>((resolve) => {
      const timer = this.runtime.setTimer(() => {
        waiter.end();
        resolve();
      }, ms);
      const waiter = this.onOver(() => {
        timer.cancel();
        resolve();
      });
    });
    this.check(name);
  }
}

/** What waits for a deadline. */
export interface Waiter {
  /** Waits no longer; does nothing the second time. */
  end(): void;
}

/** What waits for a deadline, as the alarm keeps it. */
class Entry implements Waiter {
  readonly deadline: Deadline;
  readonly #listener: () => void;
  readonly #alarm: Alarm;
  /** Its place in the alarm; -1 when it waits no longer. */
  place = -1;

  constructor(deadline: Deadline, listener: () => void) {
    this.deadline = deadline;
    this.#listener = listener;
    this.#alarm = alarmOf(deadline);
    this.#alarm.add(this);
    deadline.signal?.addEventListener("abort", this);
    if (deadline.signal?.aborted) this.handleEvent();
  }

  end(): void {
    if (this.place < 0) return;
    this.#alarm.remove(this);
    this.deadline.signal?.removeEventListener("abort", this);
  }

  /** The deadline is over: its signal was aborted, or the alarm rang. */
  handleEvent(): void {
    if (this.place < 0) return;
    this.end();
    this.#listener();
  }
}

/** The one timer of an owner's deadlines. */
class Alarm {
  readonly #runtime: Runtime;
  /**
   * Those who wait, in any order, in the first places; a place that becomes free is taken by the last.
   * Nothing here shrinks: what a collection leaves behind when it is tidied up keeps alive what it held
   * until the next full garbage collection, and with each call all that the call made.
   */
  readonly #entries: (Entry | undefined)[] = [];
  #count = 0;
  #timer: Timer | undefined;
  #atMs = Infinity;

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  add(entry: Entry): void {
    entry.place = this.#count++;
    this.#entries[entry.place] = entry;
    const { atMs } = entry.deadline;
    if (atMs < this.#atMs) this.#set(atMs);
    else if (entry.place === 0) this.#timer?.ref?.();
  }

  remove(entry: Entry): void {
    const last = this.#entries[--this.#count]!;
    this.#entries[entry.place] = last;
    last.place = entry.place;
    this.#entries[this.#count] = undefined;
    entry.place = -1;
    if (this.#count > 0 || this.#timer === undefined) return;
    // Kept for the next call, but it keeps no process alive; where that is not possible it ends.
    if (this.#timer.unref) this.#timer.unref();
    else this.#clear();
  }

  #set(atMs: number): void {
    this.#clear();
    this.#atMs = atMs;
    const ms = Math.max(0, Math.ceil(atMs - this.#runtime.monotonicMs()));
    this.#timer = this.#runtime.setTimer(this.#ring, ms);
  }

  #clear(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#atMs = Infinity;
  }

  readonly #ring = (): void => {
    this.#clear();
    let nextMs = Infinity;
    for (const entry of this.#entries.slice(0, this.#count)) {
      if (entry?.deadline.over) entry.handleEvent();
      else if (entry) nextMs = Math.min(nextMs, entry.deadline.atMs);
    }
    if (nextMs < this.#atMs && this.#count > 0) this.#set(nextMs);
  };
}

const alarms = new WeakMap<object, Alarm>();

function alarmOf({ owner, runtime }: Deadline): Alarm {
  let alarm = alarms.get(owner);
  if (alarm === undefined) {
    alarm = new Alarm(runtime);
    alarms.set(owner, alarm);
  }
  return alarm;
}
