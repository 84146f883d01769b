/**
 * A client and its dialect as the capabilities use them.
 *
 * Every statement goes through here, and so every statement ends by its deadline, also when the
 * driver never settles; every driver's error arrives as a `StoreError` of its kind; and what the
 * database rolled back is repeated.
 *
 * @module
 */

import {
  ConfigurationError,
  FencepostError,
  StoreClosedError,
  StoreError,
  type StoreErrorKind,
} from "../errors.ts";
import { emit, type EventListener } from "../events.ts";
import { retry, type RetryPolicy } from "../retry.ts";
import { type CallOptions, Deadline, type Runtime } from "../runtime.ts";
import type { Client, QueryOptions, Session, TransactionScript } from "./client.ts";
import type { Dialect } from "./dialect.ts";
import type { QueryResult } from "./row.ts";
import type { Statement } from "./statement.ts";

const reasons: Record<StoreErrorKind, string> = {
  connection: "the connection failed, so the outcome of what was sent is unknown",
  deadlock: "the database chose it as a deadlock's victim",
  diskFull: "the database has no space left",
  duplicate: "the row or object exists already",
  missingTable: "a table or its schema does not exist, create the schema, and the table with " +
    "initSchema: true or the schema script",
  other: "the database or its driver failed",
  permission: "the database refused the user or a privilege",
  readOnly: "the server is read-only, a replica or a demoted primary",
  serialization: "the database could not serialize it with others",
};

/** A client and its dialect, with deadlines, errors and retries. */
export class Database implements RetryPolicy {
  /** The dialect. */
  readonly dialect: Dialect;
  /** Time and chance. */
  readonly runtime: Runtime;
  /** The observer, if there is one. */
  readonly onEvent: EventListener | undefined;
  readonly #client: Client;
  /** How long a call may take unless it says otherwise, in milliseconds. */
  readonly timeoutMs: number;
  #closing: Promise<void> | undefined;
  #closed = false;

  /**
   * Puts a client and a dialect together.
   *
   * @param client The driver adapter.
   * @param options What the store was opened with.
   */
  constructor(
    client: Client,
    options: { dialect: Dialect; runtime: Runtime; onEvent?: EventListener; timeoutMs: number },
  ) {
    this.#client = client;
    this.dialect = options.dialect;
    this.runtime = options.runtime;
    this.onEvent = options.onEvent;
    this.timeoutMs = options.timeoutMs;
  }

  /** Whether it was closed, or is about to be. */
  get closing(): boolean {
    return this.#closing !== undefined;
  }

  /** Whether the driver has transactions. */
  get hasTransactions(): boolean {
    return this.#client.transaction !== undefined;
  }

  /** Starts the time of a call. */
  deadline(options: CallOptions): Deadline {
    if (this.#closing) throw new StoreClosedError();
    const { timeoutMs = this.timeoutMs, signal } = options;
    return new Deadline(this.runtime, { timeoutMs, signal, owner: this });
  }

  /** Runs statements of one name within one deadline, each in a commit of its own. */
  session(options: QueryOptions): Session {
    return { query: (statement) => this.query(statement, options) };
  }

  /** Runs one statement, once. */
  query(statement: Statement, options: QueryOptions): Promise<QueryResult> {
    return this.run(() => this.#client.query(statement, options), options);
  }

  /** Runs a transaction and repeats it while the database rolls it back. */
  transaction<T>(script: TransactionScript<T>, options: QueryOptions): Promise<T> {
    return this.retry(
      () =>
        this.run(async () => {
          if (this.#client.transaction === undefined) {
            throw new ConfigurationError(
              `Cannot run ${options.name}: the driver has no transactions`,
            );
          }
          return await this.#client.transaction(script, options);
        }, options),
      options,
    );
  }

  /** Repeats an operation of single statements while the database rolls it back. */
  retry<T>(operation: () => Promise<T>, { name, deadline }: QueryOptions): Promise<T> {
    return retry(operation, { policy: this, name, deadline });
  }

  /** Whether the database rolled back what failed in this way. */
  isRetryable(kind: StoreErrorKind): boolean {
    return this.dialect.isRetryable(kind);
  }

  /** Tells the observer that a statement is repeated. */
  onRetry(retry: { name: string; kind: StoreErrorKind; attempt: number; delayMs: number }): void {
    const { name: statement, ...rest } = retry;
    if (this.onEvent) emit(this.onEvent, { type: "retry", statement, ...rest });
  }

  /** Runs something of the client's: it ends by its deadline, and fails with the library's errors. */
  run<T>(operation: () => Promise<T>, options: QueryOptions): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#closed) throw new StoreClosedError();
      const { name, deadline } = options;
      deadline.check(name);
      const waiter = deadline.onOver(() => reject(deadline.error(name, "unknown")));
      const succeed = (value: T) => {
        waiter.end();
        resolve(value);
      };
      const fail = (error: unknown) => {
        waiter.end();
        reject(this.#storeError(options, error));
      };
      try {
        operation().then(succeed, fail);
      } catch (error) {
        fail(error);
      }
    });
  }

  /** Runs something in a transaction of the application's, given the driver's own handle. */
  inside<T>(
    transaction: unknown,
    work: (session: Session) => Promise<T>,
    options: QueryOptions,
  ): Promise<T> {
    return this.run(() => work(this.#client.session(transaction)), options);
  }

  /**
   * Closes the client if the library opened it, once what is passed has ended. Later calls are refused.
   * Idempotent.
   */
  close(last: Promise<void> = Promise.resolve()): Promise<void> {
    return this.#closing ??= last.then(() => {
      this.#closed = true;
      return this.#client.close();
    });
  }

  #storeError(options: QueryOptions, error: unknown): unknown {
    const { signal } = options.deadline;
    const ours = error instanceof FencepostError || (signal?.aborted && error === signal.reason);
    return ours ? error : driverError(this.dialect.classify(error), options.name, error);
  }
}

/** A driver's error as an error of its kind. The message holds nothing that the driver said. */
export function driverError(kind: StoreErrorKind, statement: string, cause: unknown): StoreError {
  const code = typeof cause === "object" && cause !== null && "code" in cause &&
      /^[A-Z0-9_]{1,40}$/.test(String(cause.code))
    ? String(cause.code)
    : cause instanceof Error
    ? cause.name
    : typeof cause;
  return new StoreError(`Cannot run ${statement}: ${reasons[kind]}: received ${code}`, {
    kind,
    statement,
    cause,
  });
}
