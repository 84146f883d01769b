/**
 * Runs many random schedules, and shrinks the first that breaks a rule.
 *
 * @module
 */

import fc from "fast-check";
import { ModelDatabase } from "./database.ts";
import { type Rule, Violation } from "./rules.ts";
import { printed, schedules } from "./schedule.ts";
import { World } from "./world.ts";

/** What to run. */
export interface CheckOptions {
  /** How many schedules. */
  readonly runs: number;
  /** Where chance comes from; a random one unless given. */
  readonly seed?: number;
  /** Which schedule of the seed, as a failure told it. */
  readonly path?: string;
  /** The rules that count; all do unless given. */
  readonly only?: readonly Rule[];
  /** Whether to look for the smallest schedule. */
  readonly shrink?: boolean;
  /** Is told now and then how many schedules have run. */
  readonly onProgress?: (schedules: number) => void;
}

/** What came of it. */
export interface Outcome {
  readonly seed: number;
  /** How many schedules were run before one broke a rule. */
  readonly schedules: number;
  readonly steps: number;
  readonly ids: number;
  /** What was broken, how it is shown again, and the smallest schedule that breaks it. */
  readonly failure:
    | { readonly message: string; readonly path: string; readonly schedule: string }
    | undefined;
}

/** How many tenths of the runs are told of. */
const tenths = 10;

/** Runs schedules. */
export async function check(options: CheckOptions): Promise<Outcome> {
  const { runs, path = "", only, shrink = true, onProgress } = options;
  const { seed = Math.floor(Math.random() * 2 ** 31) } = options;
  using database = new ModelDatabase();
  const counted = { schedules: 0, steps: 0, ids: 0 };
  let failed = false;
  const property = fc.asyncProperty(schedules, async (schedule) => {
    const done = await new World(database, schedule, only).run().catch((error) => {
      failed = true;
      throw error;
    });
    // What comes then is only about that one.
    if (failed) return;
    counted.schedules++;
    counted.steps += done.steps;
    counted.ids += done.ids;
    if (counted.schedules % Math.ceil(runs / tenths) === 0) onProgress?.(counted.schedules);
  });
  // The library throws errors all the time here, and nobody reads where they were made.
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    const result = await fc.check(property, { seed, path, numRuns: runs, endOnFailure: !shrink });
    const { counterexample, counterexamplePath, errorInstance } = result;
    if (!result.failed) return { seed, ...counted, failure: undefined };
    if (counterexample === null) throw new Error("fast-check ran nothing");
    if (!(errorInstance instanceof Violation)) throw errorInstance;
    const failure = {
      message: errorInstance.message,
      path: counterexamplePath ?? "",
      schedule: printed(counterexample[0], errorInstance.steps),
    };
    return { seed, ...counted, failure };
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** How a failure is shown again. */
export function replayOf({ seed, failure }: Outcome): string {
  return `deno task model --runs 1 --seed ${seed} --path ${failure?.path}`;
}
