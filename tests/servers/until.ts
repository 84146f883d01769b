/**
 * Waiting for a condition, never for a time.
 *
 * @module
 */
import { setTimeout } from "node:timers/promises";

/** How long to wait, and what to say when it was in vain. */
export interface UntilOptions {
  /**
   * Milliseconds after which it is given up.
   *
   * @default {30_000}
   */
  readonly deadlineMs?: number;
  /** What was waited for; ends the sentence "Cannot wait any longer for". */
  readonly what: string;
}

/** Asks every 20 ms, and resolves with the first answer that is not undefined. */
export async function until<T>(
  ask: () => T | undefined | Promise<T | undefined>,
  { deadlineMs = 30_000, what }: UntilOptions,
): Promise<T> {
  const deadline = performance.now() + deadlineMs;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    if (performance.now() > deadline) {
      throw new Error(`Cannot wait any longer for ${what}: received nothing in ${deadlineMs} ms`);
    }
    await setTimeout(20);
  }
}
