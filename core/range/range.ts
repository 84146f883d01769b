/**
 * What a reserve gives, and what it takes from the database.
 *
 * @module
 */

import type { Deadline } from "../runtime.ts";

/** A range of values: `start` belongs to it, `end` does not. */
export interface Range {
  /** The first value. */
  readonly start: bigint;
  /** One past the last value. */
  readonly end: bigint;
}

/** A checked reserve: of one call, or of the calls of a group. */
export interface Reservation {
  /** The key. */
  readonly key: string;
  /** How many values. */
  readonly size: bigint;
  /** Where a new key starts. */
  readonly initialOffset: bigint;
  /** When it must have ended. */
  readonly deadline: Deadline;
}

/** Sends a reservation, on behalf of a number of calls. */
export type Take = (reservation: Reservation, calls: number) => Promise<Range>;
