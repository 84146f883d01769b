/**
 * What a suite of the benchmark is.
 *
 * @module
 */

import type { Candidate } from "./harness.ts";

/** A suite that was opened on a database. */
export interface Suite extends AsyncDisposable {
  /** What is measured, and against what. */
  readonly candidates: readonly Candidate[];
  /** What one operation is, for the head of the table. */
  readonly operation: string;
  /** Makes every run start alike; called before each, and not timed. */
  beforeRun(): Promise<void>;
  /** The comparisons that matter, of those that were measured. */
  readonly comparisons: readonly Comparison[];
}

/** A candidate beside the one that it is measured by. */
export interface Comparison {
  /** The candidate. */
  readonly candidate: string;
  /** What it is measured by. */
  readonly reference: string;
  /** The numbers of callers at which that is asked; all if absent. */
  readonly concurrency?: readonly number[];
}
