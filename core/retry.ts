/**
 * The one place that repeats statements.
 *
 * Only what the database itself has rolled back is repeated, with a bound, exponential backoff and
 * full jitter, and never past the deadline. What has an unknown outcome is never repeated here.
 *
 * @module
 */

import { StoreError, type StoreErrorKind } from "./errors.ts";
import type { Deadline, Runtime } from "./runtime.ts";

/** How often an operation is attempted before its last error is given to the caller. */
export const maxAttempts = 10;

const firstDelayMs = 5;
const longestDelayMs = 250;

/** A wait before the next attempt: random, so that those who collided do not collide again. */
export function backoffMs(runtime: Runtime, attempt: number): number {
  // Never 0: a driver may need a turn of the event loop after an error before it takes a statement.
  return 1 + runtime.random() * Math.min(longestDelayMs, firstDelayMs * 2 ** (attempt - 1));
}

/**
 * Runs an operation and repeats it while the database rolls it back.
 *
 * @param operation One attempt, from its first statement to its commit.
 * @param options What decides whether, when and how long to repeat.
 */
export async function retry<T>(
  operation: () => Promise<T>,
  options: {
    runtime: Runtime;
    deadline: Deadline;
    statement: string;
    isRetryable: (kind: StoreErrorKind) => boolean;
    onRetry: (attempt: number, error: StoreError, delayMs: number) => void;
  },
): Promise<T> {
  for (let attempt = 1;; attempt++) {
    try {
      return await operation();
    } catch (error) {
      const repeat = attempt < maxAttempts && error instanceof StoreError &&
        options.isRetryable(error.kind);
      if (!repeat) throw error;
      const delayMs = backoffMs(options.runtime, attempt);
      options.onRetry(attempt, error, delayMs);
      await options.deadline.sleep(delayMs, `repeat ${options.statement}`);
    }
  }
}
