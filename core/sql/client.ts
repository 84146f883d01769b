/**
 * What a driver adapter implements. Its promises, for every adapter:
 *
 * - It never closes a pool or connection that it was given, and sets no session state.
 * - Whatever the application's settings are, a row is read by the names that the statement gave and
 *   loses nothing. A setting that cannot be undone per statement is refused when the store opens.
 * - No statement runs inside a transaction that the adapter did not open. Where the driver can tell,
 *   such a transaction is waited out until the deadline and then refused with `InTransactionError`.
 * - A transaction is a generator of statements. It can wait for nothing but its own statements, so a
 *   synchronous driver runs it in one go and no statement of somebody else's can fall into it.
 * - The driver's error is thrown as it is; classifying it is the dialect's work.
 * - The promise of a call may never settle, because a driver's may not: the caller races it against
 *   the deadline. The adapter uses the deadline only to free what the call holds.
 *
 * @module
 */

import type { Deadline } from "../runtime.ts";
import type { QueryResult } from "./row.ts";
import type { Statement } from "./statement.ts";

/** A server as a client sees it. */
export interface ServerInfo {
  /** The product's name as the server says it, such as "PostgreSQL". */
  readonly product: string;
  /** Its version as the server says it, such as "15.18". */
  readonly version: string;
}

/** Something that runs statements: a client within one call, or an open transaction. */
export interface Session {
  /** Runs one statement. */
  query(statement: Statement): Promise<QueryResult>;
}

/** What accompanies each statement of a call. */
export interface QueryOptions {
  /** The name of the statement for errors and events, such as "range.reserve". */
  readonly name: string;
  /** When the call must have ended. */
  readonly deadline: Deadline;
}

/**
 * A transaction: it yields one statement after the other and receives each one's result. It commits
 * when it returns and rolls back when it throws. It may be run again from the start.
 */
export type TransactionScript<T> = () => Generator<Statement, T, QueryResult>;

/** A driver adapter. */
export interface Client {
  /** The family of drivers and SQL that it belongs to, such as "postgresql". */
  readonly family: string;
  /** Asks the server what it is. */
  server(options: QueryOptions): Promise<ServerInfo>;
  /** Runs one statement in a commit of its own. */
  query(statement: Statement, options: QueryOptions): Promise<QueryResult>;
  /** Runs a transaction; absent where the driver has none. */
  transaction?<T>(script: TransactionScript<T>, options: QueryOptions): Promise<T>;
  /** Runs statements inside a transaction of the application's, given the driver's own handle. */
  session(transaction: unknown): Session;
  /** Closes the connection if the library opened it; else does nothing. */
  close(): Promise<void>;
}

/** Runs a transaction's statements one by one. */
export async function runScript<T>(
  script: TransactionScript<T>,
  query: (statement: Statement) => Promise<QueryResult>,
): Promise<T> {
  const steps = script();
  let step = steps.next();
  while (!step.done) {
    step = steps.next(await query(step.value));
  }
  return step.value;
}
