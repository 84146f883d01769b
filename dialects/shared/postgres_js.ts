/**
 * `postgres` (postgres.js), for every database that speaks PostgreSQL's protocol. What of it depends
 * on the server, above all its transactions, stands with the server's dialect.
 *
 * - A statement reaches the driver as one unchanging text, so the driver prepares it once on each
 *   connection and sends it in one round trip from then on. It is given to `unsafe`, whose name is
 *   about texts that somebody else wrote: values are bound, as by the driver's tag. The tag would have
 *   its parameters spread; then V8 does not free young what each query leaves behind, which costs a
 *   tenth of the throughput.
 * - On a pool with types or a value transform of the application's, values are bound with the type
 *   "unknown", for which the driver has no serializer, and rows are read raw, before any parser. The
 *   server infers the types from the statement. Without such settings the driver's plain ways do the
 *   same at less cost.
 * - Columns are read by the names that the statement gave, whatever the application's column transform
 *   makes of them. A row transform cannot be undone for a statement: it is refused.
 * - At the deadline nothing is cancelled on the server: the driver's cancel names the connection, not
 *   the statement, and may hit a neighbour's. A transaction is rolled back before its connection is
 *   used again.
 * - A query that is sent in the turn in which a connection failed may never settle, and may hold up a
 *   pool of one for good. So such a failure is passed on a moment later.
 *
 * @module
 */

import { ConfigurationError } from "../../core/errors.ts";
import type {
  Client,
  QueryOptions,
  ServerInfo,
  Session,
  TransactionScript,
} from "../../core/sql/client.ts";
import { inTransaction } from "../../core/sql/exclusive.ts";
import { type Columns, type QueryResult, Row } from "../../core/sql/row.ts";
import {
  type Bindable,
  doubleQuoted,
  type MakeText,
  Renderer,
  type Statement,
} from "../../core/sql/statement.ts";
import { parameterText } from "./protocol.ts";

/** A result of postgres.js, as far as it is used. */
export interface PostgresJsResult extends ArrayLike<unknown> {
  /** How many rows the statement returned or changed; null if the server does not say. */
  readonly count: number | null;
  /** What the server did, such as "COMMIT"; null if it did not answer. */
  readonly command: string | null;
  /** The columns, under the names that the application's transform gives them. */
  readonly columns: readonly { readonly name: string }[];
}

/** A query of postgres.js before it is sent, as far as it is used. */
export interface PostgresJsQuery {
  /** Asks for rows as arrays of bytes. */
  raw(): Promise<PostgresJsResult>;
  /** Asks for rows as arrays of values. */
  values(): Promise<PostgresJsResult>;
}

/** What runs statements in postgres.js: a pool, or an open transaction. */
export interface PostgresJsRunner {
  /** Makes a query of a text. `never` stands for whatever parameters the driver's types take. */
  unsafe(text: string, parameters?: never[], options?: { prepare?: boolean }): PostgresJsQuery;
  /** Binds a value with a type. */
  typed(value: never, type: number): unknown;
}

/** The pool of postgres.js, as far as it is used: what `postgres(…)` returns. */
export interface PostgresJsSql extends PostgresJsRunner {
  /** The settings that matter to the adapter. */
  readonly options: {
    readonly max: number;
    readonly types: object;
    readonly fetch_types: boolean;
    readonly transform: {
      readonly column: { readonly from?: unknown };
      readonly value: { readonly from?: unknown };
      readonly row: { readonly from?: unknown };
    };
  };
  /** Runs a transaction on a connection of its own. */
  begin(
    options: string,
    work: (transaction: PostgresJsRunner) => Promise<unknown>,
  ): Promise<unknown>;
  /** Closes the pool. */
  end(options?: { timeout?: number }): Promise<void>;
}

/** How the adapter uses a pool. */
export interface PostgresJsOptions {
  /** Whether the library opened it, and so closes it. */
  readonly opened: boolean;
  /** Whether it is used by nobody else. */
  readonly exclusive: boolean;
  /** Whether statements are prepared on the server. */
  readonly prepare: boolean;
}

/** The OID of the type "unknown". */
const unknownType = 705;
/** How long closing a pool that the library opened waits for its statements, in seconds. */
const closeTimeout = 5;

/** A pool of postgres.js, without what depends on the server. */
export abstract class PostgresJsPool implements Client {
  /** The family of drivers and SQL that it belongs to. */
  abstract readonly family: string;
  /** The pool. */
  protected readonly sql: PostgresJsSql;
  readonly #opened: boolean;
  readonly #options: { readonly prepare: boolean };
  /** Whether the application has no types or value transform of its own. */
  readonly #plain: boolean;
  readonly #bind: (value: Bindable) => never;
  readonly #rename: ((name: string) => string) | undefined;
  readonly #renderer: Renderer<string>;

  /**
   * Adapts a pool.
   *
   * @param sql The pool.
   * @param options How it is used, and what is made of the text of a statement.
   */
  constructor(sql: PostgresJsSql, options: PostgresJsOptions & { make: MakeText<string> }) {
    refuseUnusable(sql, options.exclusive);
    this.sql = sql;
    this.#opened = options.opened;
    this.#options = { prepare: options.prepare };
    this.#renderer = new Renderer({ quote: doubleQuoted, make: options.make });
    const { types, transform } = sql.options;
    this.#plain = Object.keys(types).length === 0 && transform.value.from === undefined;
    this.#bind = this.#plain
      ? bindPlain
      : (value) => sql.typed(parameterText(value) as never, unknownType) as never;
    const rename = transform.column.from;
    if (typeof rename === "function") this.#rename = (name) => rename(name);
  }

  /** Asks for the version of the server. */
  abstract server(options: QueryOptions): Promise<ServerInfo>;

  /** Runs a transaction on a connection of its own. */
  abstract transaction<T>(script: TransactionScript<T>, options: QueryOptions): Promise<T>;

  /** Runs one statement on any connection of the pool. */
  query(statement: Statement, _options: QueryOptions): Promise<QueryResult> {
    // Not by `await`, which takes two more turns of the microtask queue for a promise of a subclass.
    return this.send(this.sql, statement).then(this.resultOf, throwLater);
  }

  /** Runs statements in a transaction of the application's, given what `begin` gave it. */
  session(transaction: unknown): Session {
    if (!isTransaction(transaction)) {
      throw new ConfigurationError(
        "Cannot use transaction: it must be what postgres.js gives to the callback of begin",
      );
    }
    return { query: (statement) => this.send(transaction, statement).then(this.resultOf) };
  }

  /** Closes the pool if the library opened it. */
  async close(): Promise<void> {
    if (this.#opened) await this.sql.end({ timeout: closeTimeout });
  }

  /** Sends a statement. */
  protected send(runner: PostgresJsRunner, statement: Statement): Promise<PostgresJsResult> {
    const { text, values } = this.#renderer.render(statement, this.#bind);
    const query = runner.unsafe(text, values, this.#options);
    return this.#plain ? query.values() : query.raw();
  }

  /** The text of a statement, as the server gets it. */
  protected textOf(statement: Statement): string {
    return this.#renderer.render(statement).text;
  }

  /** What the driver's result is to the store. */
  protected readonly resultOf = (result: PostgresJsResult): QueryResult => {
    const columns = new RenamedColumns(result.columns ?? [], this.#rename);
    const rows: Row[] = [];
    for (let index = 0; index < result.length; index++) {
      rows.push(new Row(columns, result[index] as unknown[]));
    }
    return { rows, affected: result.count ?? rows.length };
  };
}

/** Makes of a value what the driver's own serializers take. */
function bindPlain(value: Bindable): never {
  // As text a boolean would not do: the driver's serializer takes every text for false.
  return (typeof value === "boolean" ? value : parameterText(value)) as never;
}

/** Columns under the names that the application's transform gives them. */
class RenamedColumns implements Columns {
  readonly #columns: PostgresJsResult["columns"];
  readonly #rename: ((name: string) => string) | undefined;

  constructor(
    columns: PostgresJsResult["columns"],
    rename: ((name: string) => string) | undefined,
  ) {
    this.#columns = columns;
    this.#rename = rename;
  }

  indexOf(name: string): number {
    const wanted = this.#rename?.(name) ?? name;
    const index = this.#columns.findIndex((column) => column.name === wanted);
    if (this.#rename && this.#columns.findLastIndex(({ name }) => name === wanted) !== index) {
      throw new ConfigurationError(
        `Cannot read column "${name}": the setting transform.column of postgres.js gives the same ` +
          `name to two columns: received "${wanted}"`,
      );
    }
    return index;
  }
}

/** Whether something looks like what postgres.js makes: a pool, a transaction, a reserved one. */
export function isPostgresJs(value: unknown): value is PostgresJsSql {
  return typeof value === "function" && "unsafe" in value && "typed" in value;
}

function isTransaction(value: unknown): value is PostgresJsRunner {
  return isPostgresJs(value) && "savepoint" in value;
}

function refuseUnusable(sql: PostgresJsSql, exclusive: boolean): void {
  if ("savepoint" in sql) throw inTransaction("open store");
  if ("release" in sql) {
    throw new ConfigurationError(
      "Cannot open store: it takes the pool of postgres.js, not a connection that was reserved",
    );
  }
  if (sql.options.max === 1 && !exclusive) {
    throw new ConfigurationError(
      "Cannot open store: a pool of one connection may be inside a transaction of the " +
        "application's, pass exclusive: true if nothing else sends begin on it: received max 1",
    );
  }
  if (sql.options.transform.row.from !== undefined) {
    throw new ConfigurationError(
      "Cannot open store: the setting transform.row of postgres.js changes what the store reads, " +
        "use a pool without it",
    );
  }
}

/** Whether an error was sent by the server, and not made by the driver or the platform. */
export function isFromServer(error: unknown): boolean {
  // PostgreSQL sends a translated severity and one that is not, H2 only the first.
  return typeof error === "object" && error !== null && "severity_local" in error;
}

/** Whether the connection on which a statement failed in this way has ended, or is about to. */
export function endsConnection(error: unknown): boolean {
  if (!isFromServer(error)) return true;
  return typeof error === "object" && error !== null && "severity" in error &&
    (error.severity === "FATAL" || error.severity === "PANIC");
}

/**
 * Fails with an error, in a later turn of the event loop if the server did not send it. Inside a
 * transaction it must not be held back: the driver would send its rollback on what is closed by then.
 */
export async function throwLater(error: unknown): Promise<never> {
  if (!isFromServer(error)) await laterTurn();
  throw error;
}

/** Waits for a later turn of the event loop, after what has arrived by now was handled. */
export function laterTurn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 1));
}
