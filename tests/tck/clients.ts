/**
 * Clients that stand between a store and the real one, to watch statements and to interfere.
 *
 * @module
 */

import type { StoreErrorKind } from "../../core/errors.ts";
import type {
  Client,
  QueryOptions,
  ServerInfo,
  Session,
  TransactionScript,
} from "../../core/sql/client.ts";
import type { Dialect } from "../../core/sql/dialect.ts";
import type { QueryResult } from "../../core/sql/row.ts";
import { type Identifier, Statement } from "../../core/sql/statement.ts";

/** A statement that a store sends. `transaction` stands for all of a transaction. */
export interface Sent {
  /** Its name, such as "range.reserve". */
  readonly name: string;
  /** The statement; undefined for a transaction. */
  readonly statement: Statement | undefined;
  /** The statements of a transaction, in order, as far as it has come. */
  readonly steps: readonly Statement[];
  /** Sends it to the real client. */
  readonly send: () => Promise<QueryResult | undefined>;
}

/**
 * Decides what becomes of a statement: sends it or not, and returns its result, another, or an error.
 * A transaction's own result is kept; what is returned for it does not matter.
 */
export type Interference = (sent: Sent) => Promise<QueryResult | undefined>;

/** A client that shows every statement, and lets a test interfere with it. */
export class WatchedClient implements Client {
  readonly family: string;
  /** The statements that were asked for, in order. */
  readonly sent: Sent[] = [];
  /** What becomes of the statements; they are sent unless set. */
  interfere: Interference = ({ send }) => send();
  readonly transaction?: <T>(script: TransactionScript<T>, options: QueryOptions) => Promise<T>;
  readonly #client: Client;

  /** @param client The real client. */
  constructor(client: Client) {
    this.#client = client;
    this.family = client.family;
    if (client.transaction) this.transaction = this.#transaction;
  }

  /** The names of the statements that were asked for, in order. */
  get names(): string[] {
    return this.sent.map(({ name }) => name);
  }

  /** Asks the real server. */
  server(options: QueryOptions): Promise<ServerInfo> {
    return this.#client.server(options);
  }

  /** Shows a statement, and does with it what the test wants. */
  async query(statement: Statement, options: QueryOptions): Promise<QueryResult> {
    const send = () => this.#client.query(statement, options);
    const result = await this.#show({ name: options.name, statement, steps: [], send });
    return result ?? { rows: [], affected: 0 };
  }

  /** The real client's. */
  session(transaction: unknown): Session {
    return this.#client.session(transaction);
  }

  /** Closes nothing: whoever made the real client closes it. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  async #transaction<T>(script: TransactionScript<T>, options: QueryOptions): Promise<T> {
    let result: { value: T } | undefined;
    const steps: Statement[] = [];
    const noted: TransactionScript<T> = function* () {
      const work = script();
      let step = work.next();
      while (!step.done) {
        steps.push(step.value);
        step = work.next(yield step.value);
      }
      return step.value;
    };
    const send = async () => {
      const value = await this.#client.transaction?.(noted, options);
      result = { value: value as T };
      return undefined;
    };
    await this.#show({ name: options.name, statement: undefined, steps, send });
    if (result === undefined) throw new TypeError("The test did not send the transaction");
    return result.value;
  }

  async #show(sent: Sent): Promise<QueryResult | undefined> {
    this.sent.push(sent);
    return await this.interfere(sent);
  }
}

/** A point at which statements wait until they are let go. */
export class Gate {
  readonly #waiting: (() => void)[] = [];
  readonly #arrivals: (() => void)[] = [];
  #arrived = 0;

  /** Waits to be let go. */
  async pass(): Promise<void> {
    this.#arrived++;
    this.#arrivals.shift()?.();
    await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  /** Waits until one more has come to the gate since the last call. */
  async arrival(): Promise<void> {
    if (this.#arrived === 0) await new Promise<void>((resolve) => this.#arrivals.push(resolve));
    this.#arrived--;
  }

  /** Lets the one go that has waited longest. */
  open(): void {
    this.#waiting.shift()?.();
  }
}

/** Whether an object, such as a fragment of a dialect, is part of a statement. */
export function contains(statement: Statement, part: Statement | Identifier): boolean {
  return statement.parts.some((inner) =>
    inner === part || (inner instanceof Statement && contains(inner, part))
  );
}

/** An error that a dialect of `withStagedErrors` takes for a kind of the case's choice. */
export class StagedError extends Error {
  /** The kind. */
  readonly kind: StoreErrorKind;

  /** @param kind What the dialect is to take it for. */
  constructor(kind: StoreErrorKind = "connection") {
    super(`staged ${kind}`);
    this.kind = kind;
  }
}

/** A dialect that also knows staged errors. */
export function withStagedErrors(dialect: Dialect): Dialect {
  return Object.create(dialect, {
    classify: {
      value: (error: unknown) =>
        error instanceof StagedError ? error.kind : dialect.classify(error),
    },
  });
}
