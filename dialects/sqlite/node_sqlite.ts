/**
 * SQLite over `node:sqlite`, in Node 22.16 or later, Deno and Bun.
 *
 * The driver is synchronous. A statement, and a whole transaction, runs within one turn of the event
 * loop: nothing of the application's can fall between, and no timer is needed. What takes time is
 * waiting for others:
 *
 * - for a transaction of the application's on the same connection, until the deadline;
 * - for another connection's write lock, by trying again with jitter until the deadline. The driver's
 *   own busy timeout would stop the event loop, so a connection that the library opens has none.
 *
 * A call runs in a turn of its own, never inside a function that the application has given to SQLite.
 * What cannot be seen is a statement of the application's that is still being read, such as an insert
 * with an iterator over what it returns: then a reserve is permanent only once that has been read.
 *
 * A statement that met a lock has changed nothing, so trying again is safe.
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
import { waitOut } from "../../core/sql/exclusive.ts";
import { type QueryResult, Row } from "../../core/sql/row.ts";
import { type Bindable, doubleQuoted, Renderer, type Statement } from "../../core/sql/statement.ts";
import {
  begin,
  commit,
  connectionSettings,
  neededSettings,
  rollback,
  selectVersion,
} from "./dialect.ts";

/** A prepared statement of `node:sqlite`, as far as it is used. */
export interface SqliteStatement {
  /** Runs it and returns its rows. */
  all(...values: (string | bigint | null)[]): unknown[];
  /** Runs it and returns what it changed. */
  run(...values: (string | bigint | null)[]): { changes: number | bigint };
  /** The columns of its result. */
  columns(): { name: string }[];
  /** Returns integers as bigints. */
  setReadBigInts(enabled: boolean): void;
}

/** A `DatabaseSync` of `node:sqlite`, as far as it is used. */
export interface SqliteDatabase {
  /** Whether a transaction is open. */
  readonly isTransaction: boolean;
  /** Prepares a statement. */
  prepare(text: string): SqliteStatement;
  /** Closes it. */
  close(): void;
}

interface Prepared {
  readonly statement: SqliteStatement;
  readonly names: readonly string[];
}

const firstWaitMs = 1;
const longestWaitMs = 25;

/** SQLite over a connection of `node:sqlite`. */
export class NodeSqliteClient implements Client {
  readonly family = "sqlite";
  readonly #database: SqliteDatabase;
  readonly #opened: boolean;
  readonly #prepared = new Map<string, Prepared>();
  readonly #renderer = new Renderer({
    quote: doubleQuoted,
    make: (pieces) => pieces.join("?"),
  });

  /**
   * Adapts a connection.
   *
   * @param database The connection.
   * @param options Whether the library opened it, and so closes it.
   */
  constructor(database: SqliteDatabase, options: { opened: boolean }) {
    if (typeof database.isTransaction !== "boolean") {
      throw new ConfigurationError(
        "Cannot open store: the connection does not tell whether a transaction is open, pass a " +
          "DatabaseSync of node:sqlite, of Node 22.16 or later, Deno or Bun: received one without " +
          "isTransaction",
      );
    }
    this.#database = database;
    this.#opened = options.opened;
  }

  /** Sets up a connection that the library opened, and asks for the version of SQLite. */
  async server(options: QueryOptions): Promise<ServerInfo> {
    if (this.#opened) {
      for (const setting of connectionSettings) await this.query(setting, options);
    }
    for (const { name, read, needed } of neededSettings) {
      const { rows: [row] } = await this.query(read, options);
      if (row?.bigint(name) !== needed) {
        throw new ConfigurationError(
          `Cannot open store: the setting ${name} of SQLite changes what the store reads, set it to ` +
            `${needed}: received ${row?.bigint(name)}`,
        );
      }
    }
    const { rows } = await this.query(selectVersion, options);
    return { product: "SQLite", version: rows[0]?.text("version") ?? "" };
  }

  /** Runs one statement in a commit of its own. */
  async query(statement: Statement, options: QueryOptions): Promise<QueryResult> {
    return await this.#whenFree(options, () => this.#run(statement));
  }

  /** Runs a transaction within one turn of the event loop. */
  async transaction<T>(script: TransactionScript<T>, options: QueryOptions): Promise<T> {
    return await this.#whenFree(options, () => {
      this.#run(begin);
      try {
        const steps = script();
        let step = steps.next();
        while (!step.done) step = steps.next(this.#run(step.value));
        this.#run(commit);
        return step.value;
      } catch (error) {
        // SQLite has rolled back by itself after some errors.
        if (this.#database.isTransaction) this.#run(rollback);
        throw error;
      }
    });
  }

  /** Runs statements in a transaction that the application opened on a connection of its own. */
  session(transaction: unknown): Session {
    if (!isSqliteDatabase(transaction) || !transaction.isTransaction) {
      throw new ConfigurationError(
        "Cannot use transaction: it must be a connection of node:sqlite with an open transaction",
      );
    }
    const other = transaction === this.#database
      ? this
      : new NodeSqliteClient(transaction, { opened: false });
    return {
      query(statement: Statement): Promise<QueryResult> {
        return new Promise((resolve) => resolve(other.#run(statement)));
      },
    };
  }

  /** Closes the connection if the library opened it. */
  close(): Promise<void> {
    if (this.#opened) this.#database.close();
    return Promise.resolve();
  }

  /** Runs something within one turn, once the connection and the write lock are free. */
  async #whenFree<T>(options: QueryOptions, run: () => T): Promise<T> {
    const { name, deadline } = options;
    await undefined;
    for (let waitMs = firstWaitMs;; waitMs = Math.min(longestWaitMs, waitMs * 2)) {
      while (this.#database.isTransaction) {
        await waitOut(() => this.#database.isTransaction, options);
      }
      try {
        return run();
      } catch (error) {
        if (!isBusy(error)) throw error;
      }
      await deadline.sleep((0.5 + deadline.runtime.random()) * waitMs, name);
    }
  }

  #run(statement: Statement): QueryResult {
    const { text, values } = this.#renderer.render(statement, bindable);
    const { statement: prepared, names } = this.#prepare(text);
    if (names.length === 0) {
      return { rows: [], affected: Number(prepared.run(...values).changes) };
    }
    const rows = prepared.all(...values).map((row) => new Row(names, cellsOf(row, names)));
    return { rows, affected: rows.length };
  }

  #prepare(text: string): Prepared {
    let prepared = this.#prepared.get(text);
    if (prepared === undefined) {
      const statement = this.#database.prepare(text);
      statement.setReadBigInts(true);
      prepared = { statement, names: statement.columns().map((column) => column.name) };
      this.#prepared.set(text, prepared);
    }
    return prepared;
  }
}

/** Whether something looks like a connection of `node:sqlite`. */
export function isSqliteDatabase(value: unknown): value is SqliteDatabase {
  return typeof value === "object" && value !== null &&
    "prepare" in value && typeof value.prepare === "function" &&
    "exec" in value && typeof value.exec === "function";
}

/** The values of a row, which is an object, or an array if the application has asked for arrays. */
function cellsOf(row: unknown, names: readonly string[]): readonly unknown[] {
  return Array.isArray(row) ? row : names.map((name) => (row as Record<string, unknown>)[name]);
}

function bindable(value: Bindable): string | bigint | null {
  if (typeof value === "boolean") return value ? 1n : 0n;
  return typeof value === "number" ? BigInt(value) : value;
}

/** SQLITE_BUSY or SQLITE_LOCKED: another connection holds the lock, nothing has changed. */
function isBusy(error: unknown): boolean {
  const code = typeof error === "object" && error !== null && "errcode" in error
    ? Number(error.errcode) & 0xff
    : 0;
  return code === 5 || code === 6;
}
