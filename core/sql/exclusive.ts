/**
 * What adapters over a single connection share. The application uses the same connection, so a
 * transaction of its own may be open on it at any time.
 *
 * @module
 */

import { InTransactionError } from "../errors.ts";
import type { QueryOptions } from "./client.ts";

const firstWaitMs = 1;
const longestWaitMs = 20;

/** The error for a statement that met, or ran in, a transaction that the store did not open. */
export function inTransaction(name: string): InTransactionError {
  return new InTransactionError(
    `Cannot run ${name}: the connection is inside a transaction that the store did not open, ` +
      `whose rollback would hand the same values out again`,
  );
}

/**
 * Waits until a transaction of the application's has ended.
 *
 * @param isOpen Whether it is open now.
 * @param options The call that waits.
 * @throws {InTransactionError} If it is still open at the deadline.
 */
export async function waitOut(isOpen: () => boolean, options: QueryOptions): Promise<void> {
  const { name, deadline } = options;
  if (!isOpen()) return;
  deadline.blockedBy = inTransaction(name);
  try {
    for (let waitMs = firstWaitMs; isOpen(); waitMs = Math.min(longestWaitMs, waitMs * 2)) {
      await deadline.sleep(waitMs, name);
    }
  } finally {
    deadline.blockedBy = undefined;
  }
}

/** Lets one holder at a time use a connection, in the order in which they asked. */
export class Turns {
  #last: Promise<void> = Promise.resolve();

  /**
   * Waits for a turn.
   *
   * @returns A function that ends the turn.
   */
  async take(): Promise<() => void> {
    const before = this.#last;
    let end = () => {};
    this.#last = new Promise((resolve) => end = resolve);
    await before;
    return end;
  }
}
