/**
 * The store clock as a process knows it between two answers.
 *
 * An answer tells what the clock was at some moment between sending and receiving. Until the next one
 * it is taken to run as the process's monotonic clock does. It is an estimate: a wrong one delays ids or
 * keeps a window short, and never makes two windows overlap.
 *
 * @module
 */

interface Reading {
  /** What the store clock was. */
  readonly storeMs: number;
  /** When the statement was sent, on the monotonic clock. */
  readonly sentMs: number;
  /** When its answer had arrived, on the monotonic clock. */
  readonly receivedMs: number;
}

/** Estimates the store clock. */
export class StoreClock {
  #last: Reading | undefined;

  /**
   * Takes what an answer told.
   *
   * @returns By how much, at least, the clock has moved against the monotonic clock since the answer
   * before; 0 if it may have run true.
   */
  observe(reading: Reading): number {
    const last = this.#last;
    if (last !== undefined && reading.sentMs < last.sentMs) return 0;
    this.#last = reading;
    if (last === undefined) return 0;
    const earliest = last.storeMs + reading.sentMs - last.receivedMs;
    const latest = last.storeMs + reading.receivedMs - last.sentMs;
    // A whole millisecond may have been cut from either reading.
    return Math.max(0, reading.storeMs - latest - 1) + Math.min(0, reading.storeMs - earliest + 1);
  }

  /** What the clock is at least, if it ran true; undefined before the first answer. */
  estimate(monotonicMs: number): number | undefined {
    const last = this.#last;
    return last && Math.floor(last.storeMs + monotonicMs - last.receivedMs);
  }
}
