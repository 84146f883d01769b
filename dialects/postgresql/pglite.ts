/**
 * PostgreSQL in the process: PGlite.
 *
 * It has a single connection, which it gives to one statement or transaction at a time, so calls wait
 * for a transaction of the application's that was begun with `db.transaction`. One that was begun by
 * hand is waited out until the deadline and then refused: the check runs while the statement has the
 * connection to itself, just before its values are bound.
 *
 * Values travel as text and rows are read with parsers of our own, so the application's parsers and
 * serializers change nothing.
 *
 * @module
 */

import { ConfigurationError, InTransactionError } from "../../core/errors.ts";
import {
  type Client,
  type QueryOptions,
  runScript,
  type ServerInfo,
  type Session,
  type TransactionScript,
} from "../../core/sql/client.ts";
import { driverError } from "../../core/sql/database.ts";
import { inTransaction, waitOut } from "../../core/sql/exclusive.ts";
import { type QueryResult, Row } from "../../core/sql/row.ts";
import { doubleQuoted, Renderer, type Statement } from "../../core/sql/statement.ts";
import { postgresqlDialect, selectNothing, selectVersion } from "./dialect.ts";
import { numbered, parameterText, serverInfo } from "../shared/protocol.ts";

/** The options of a statement of PGlite, as far as they are used. */
export interface PgliteQueryOptions {
  /** Asks for rows as arrays. */
  rowMode: "array";
  /** Reads a value, by the OID of its type. */
  parsers: Record<number, (value: string) => unknown>;
  /** Writes a value, by the OID of its type. */
  serializers: Record<number, (value: unknown) => string>;
}

/** A result of PGlite, as far as it is used. */
export interface PgliteResult {
  /** The rows. */
  rows: unknown[];
  /** The columns. */
  fields: { name: string }[];
  /** How many rows the statement changed. */
  affectedRows?: number;
}

/** What runs statements in PGlite: the database, or an open transaction. */
export interface PgliteRunner {
  /** Runs a statement. */
  query(
    text: string,
    values: (string | null)[],
    options: PgliteQueryOptions,
  ): Promise<PgliteResult>;
}

/** A `PGlite`, as far as it is used. */
export interface PgliteDatabase extends PgliteRunner {
  /** Runs a transaction. */
  transaction<T>(work: (transaction: PgliteRunner) => Promise<T>): Promise<T>;
  /** Resolves when it can be asked anything. */
  readonly waitReady: Promise<void>;
  /** Whether a transaction is open. */
  isInTransaction(): boolean;
  /** Closes it. */
  close(): Promise<void>;
}

/** The OIDs of the types that the library binds and reads: bool, int8, int4, text, varchar. */
const types = [16, 20, 23, 25, 1043];

const parsers = Object.fromEntries(types.map((type) => [type, (value: string) => value]));

/** PostgreSQL over PGlite. */
export class PgliteClient implements Client {
  readonly family = "postgresql";
  readonly #database: PgliteDatabase;
  readonly #opened: boolean;
  /** How many transactions of this adapter's are open or wait for the connection. */
  #transactions = 0;
  readonly #renderer = new Renderer({ quote: doubleQuoted, make: numbered });

  /**
   * Adapts a database.
   *
   * @param database The database.
   * @param options Whether the library opened it, and so closes it.
   */
  constructor(database: PgliteDatabase, options: { opened: boolean }) {
    this.#database = database;
    this.#opened = options.opened;
  }

  /** Waits until the database has started. */
  async ready(): Promise<void> {
    try {
      await this.#database.waitReady;
    } catch (error) {
      throw driverError(postgresqlDialect.classify(error), "open.connect", error);
    }
  }

  /** Asks for the version of the server. */
  async server(options: QueryOptions): Promise<ServerInfo> {
    return serverInfo(await this.query(selectVersion, options));
  }

  /** Runs one statement in a commit of its own. */
  async query(statement: Statement, options: QueryOptions): Promise<QueryResult> {
    for (;;) {
      await this.#waitOut(options);
      try {
        return await this.#run(this.#database, statement, () => {
          if (this.#database.isInTransaction()) throw inTransaction(options.name);
        });
      } catch (error) {
        // Begun by hand since the wait; nothing was sent. Wait again.
        if (!(error instanceof InTransactionError)) throw error;
      }
    }
  }

  /** Runs a transaction. */
  async transaction<T>(script: TransactionScript<T>, options: QueryOptions): Promise<T> {
    // Once this has had its turn, no `begin` that was queued before it is still to come.
    if (this.#transactions === 0) await this.query(selectNothing, options);
    this.#transactions++;
    try {
      return await this.#database.transaction(async (transaction) => {
        const value = await runScript(script, (statement) => {
          options.deadline.check(options.name);
          return this.#run(transaction, statement);
        });
        options.deadline.check(options.name);
        return value;
      });
    } finally {
      this.#transactions--;
    }
  }

  /** Runs statements in a transaction of the application's, given what `transaction` gave it. */
  session(transaction: unknown): Session {
    if (!isPgliteTransaction(transaction)) {
      throw new ConfigurationError(
        "Cannot use transaction: it must be what PGlite gives to the callback of transaction",
      );
    }
    return { query: (statement) => this.#run(transaction, statement) };
  }

  /** Closes the database if the library opened it. */
  async close(): Promise<void> {
    if (this.#opened) await this.#database.close();
  }

  /** Waits for a transaction of the application's. For its own the database has a queue. */
  async #waitOut(options: QueryOptions): Promise<void> {
    await this.ready();
    await waitOut(
      () => this.#transactions === 0 && this.#database.isInTransaction(),
      options,
    );
  }

  async #run(
    runner: PgliteRunner,
    statement: Statement,
    beforeBind: () => void = () => {},
  ): Promise<QueryResult> {
    const { text, values } = this.#renderer.render(statement, parameterText);
    const serialize = (value: unknown): string => {
      beforeBind();
      return String(value);
    };
    const serializers = Object.fromEntries(types.map((type) => [type, serialize]));
    const { rows, fields, affectedRows } = await runner.query(text, values, {
      rowMode: "array",
      parsers,
      serializers,
    });
    const names = fields.map((field) => field.name);
    return {
      rows: rows.map((cells) => new Row(names, cells as unknown[])),
      affected: affectedRows ?? 0,
    };
  }
}

/** Whether something looks like a PGlite. */
export function isPglite(value: unknown): value is PgliteDatabase {
  return typeof value === "object" && value !== null && "execProtocol" in value &&
    "isInTransaction" in value;
}

/** Whether something looks like a transaction of PGlite. */
export function isPgliteTransaction(value: unknown): value is PgliteRunner {
  return typeof value === "object" && value !== null && "query" in value &&
    "rollback" in value && "closed" in value;
}
