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

/** What decides whether an operation is repeated, and hears of it. */
export interface RetryPolicy {
  /** The clock, timers and chance. */
  readonly runtime: Runtime;
  /** Whether the database rolled back what failed in this way. */
  isRetryable(kind: StoreErrorKind): boolean;
  /** Hears that an attempt has failed and that another follows. */
  onRetry(retry: { name: string; kind: StoreErrorKind; attempt: number; delayMs: number }): void;
}

/**
 * Runs an operation and repeats it while the database rolls it back.
 *
 * @param operation One attempt, from its first statement to its commit.
 * @param options The policy, and the call that the operation belongs to.
 */
export function retry<T>(
  operation: () => Promise<T>,
  options: { policy: RetryPolicy; name: string; deadline: Deadline },
): Promise<T> {
  // The first attempt adds no turn of its own to what nearly always succeeds.
  return operation().catch((error) => repeat(operation, { ...options, error }));
}

async function repeat<T>(
  operation: () => Promise<T>,
  options: { policy: RetryPolicy; name: string; deadline: Deadline; error: unknown },
): Promise<T> {
  const { policy, name, deadline } = options;
  let { error } = options;
  for (let attempt = 1; attempt < maxAttempts; attempt++) {
    if (!(error instanceof StoreError) || !policy.isRetryable(error.kind)) break;
    const delayMs = backoffMs(policy.runtime, attempt);
    policy.onRetry({ name, kind: error.kind, attempt, delayMs });
    await deadline.sleep(delayMs, name);
    try {
      return await operation();
    } catch (next) {
      error = next;
    }
  }
  throw error;
}
