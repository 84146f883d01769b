/**
 * MySQL and MariaDB over `mysql2`.
 *
 * - Each statement, or transaction, runs on a connection that is taken out of the pool for it. If its
 *   deadline passes while it is under way, the connection is destroyed rather than put back; one that
 *   comes out of the pool too late is put back.
 * - Statements with values are prepared, each once on a connection: one round trip, two the first
 *   time. With `prepare: false` they are texts whose values are written in hexadecimal and decimal
 *   digits, which mean the same in every sql_mode and need no escaping by the driver.
 * - What the application has set for its pool about rows, types and placeholders is overridden for
 *   each statement. What cannot be is refused: a `queryFormat` that changes a text without
 *   placeholders, a character set other than utf8mb4, `autocommit = 0`.
 * - The server's answer to a write says whether a transaction is open. A write that ran inside one of
 *   the application's is refused and hands nothing out; its connection is destroyed, which takes the
 *   write back. A select's answer says nothing that the driver lets through, so a read is not refused.
 *   A transaction begins with a statement that only asks, for its `start transaction` would commit the
 *   other.
 * - Inside a transaction every answer has to say that it is open: a proxy that sends its statements to
 *   different connections could else answer the read with what others have reserved meanwhile.
 *
 * @module
 */

import { ConfigurationError } from "../../core/errors.ts";
import {
  type Client,
  type QueryOptions,
  runScript,
  type ServerInfo,
  type Session,
  type TransactionScript,
} from "../../core/sql/client.ts";
import { inTransaction, Turns } from "../../core/sql/exclusive.ts";
import type { Deadline, Waiter } from "../../core/runtime.ts";
import { type QueryResult, Row } from "../../core/sql/row.ts";
import {
  type Bindable,
  type BindableType,
  Renderer,
  type Statement,
} from "../../core/sql/statement.ts";
import { backQuoted } from "../../schema/mysql.ts";
import {
  begin,
  boundInteger,
  commit,
  mysqlDialect,
  probe,
  rollback,
  selectServer,
  textLiteral,
} from "./dialect.ts";

/** A statement as `mysql2` takes it, with all that a pool may have set otherwise. */
export interface Mysql2Query {
  /** The text, with `?` for each value. */
  sql: string;
  /** The values. */
  values: (string | number | bigint | boolean | null)[];
  /** Asks for rows as arrays. */
  rowsAsArray: true;
  /** Asks for no table's name before a column's. */
  nestTables: false;
  /** Asks for values as the driver reads them. */
  typeCast: (field: unknown, next: () => unknown) => unknown;
  /** Asks for integers without loss. */
  supportBigNumbers: true;
  /** Says that the values have no names. */
  namedPlaceholders: false;
}

/** Receives what became of a statement. */
export type Mysql2Callback = (
  error: Error | null,
  result: unknown,
  fields: unknown,
) => void;

/** A connection of `mysql2`, with callbacks, as far as it is used. */
export interface Mysql2Connection {
  /** Its settings. */
  readonly config: {
    /** The number of its collation, as the driver last heard of it. */
    readonly charsetNumber?: number;
  };
  /** Runs a text. */
  query(query: Mysql2Query, callback: Mysql2Callback): unknown;
  /** Prepares a statement, and runs it. */
  execute(query: Mysql2Query, callback: Mysql2Callback): unknown;
  /** Puts values into a text, as `query` does. */
  format(text: string, values: never[]): string;
  /** Ends it. */
  destroy(): void;
}

/** A connection that was taken out of a pool. */
export interface Mysql2PooledConnection extends Mysql2Connection {
  /** Puts it back. */
  release(): void;
}

/** A pool of `mysql2`, with callbacks, as far as it is used. */
export interface Mysql2Pool {
  /** Its settings. */
  readonly config: object;
  /** Takes a connection out of the pool. */
  getConnection(
    callback: (error: Error | null, connection: Mysql2PooledConnection) => void,
  ): void;
  /** Runs a prepared statement; a pool of the package `mysql` has none. */
  execute: unknown;
}

/** A pool of `mysql2/promise`: it wraps one with callbacks. */
export interface Mysql2PromisePool {
  /** The pool with callbacks. */
  readonly pool: Mysql2Pool;
}

/** A connection of `mysql2/promise`: it wraps one with callbacks. */
export interface Mysql2PromiseConnection {
  /** Begins a transaction. */
  beginTransaction(): Promise<void>;
  /** Makes its work permanent. */
  commit(): Promise<void>;
  /** Prepares a statement, and runs it. */
  execute: unknown;
}

/** What this adapter works with. */
export type Mysql2Target =
  | Mysql2Pool
  | Mysql2PromisePool
  | Mysql2Connection
  | Mysql2PromiseConnection;

/** A pool that the library made. */
export interface Mysql2OwnPool extends Mysql2Pool {
  /** Ends its connections when they are idle. */
  end(callback: (error?: unknown) => void): void;
  /** Listens for connections that are made. */
  on(event: "connection", listener: (connection: Mysql2Connection) => void): unknown;
}

/** A statement's text, and what it is made of. */
interface Text {
  readonly prepared: string;
  readonly pieces: readonly string[];
}

/** What a statement gave, and what the server said of its state. */
interface Answer extends QueryResult {
  /** The flags of the state; undefined for rows, with which the driver does not tell. */
  readonly status: number | undefined;
}

/** What became of a statement; called once, or twice by a connection that broke. */
type Answered = (error: unknown, answer?: Answer) => void;

/** The flag that says that a transaction is open. */
const statusInTransaction = 1;

/**
 * Whether a number of a collation, as the driver has them, is one of utf8mb4. A session may have said
 * `set names utf8mb4` on one connection and not yet on the next.
 */
function isUtf8mb4(collation: number): boolean {
  return collation === 45 || collation === 46 || (collation >= 224 && collation <= 247) ||
    (collation >= 255 && collation <= 323);
}

const asRead = (_field: unknown, next: () => unknown): unknown => next();

/** How long a pool that the library made may take to end, in milliseconds. */
const endTimeoutMs = 5_000;

/** How often a transaction of the application's on a single connection is asked for, in milliseconds. */
const firstWaitMs = 1;
const longestWaitMs = 50;

/** MySQL and MariaDB over a pool of `mysql2`, or over one of its connections. */
export class Mysql2Client implements Client {
  readonly family = "mysql";
  readonly #source: Source;
  readonly #prepare: boolean;
  readonly #close: () => Promise<void>;
  /** The number of the collation that was found to be of utf8mb4. */
  #charset: number | undefined;
  readonly #renderer = new Renderer<Text>({
    quote: backQuoted,
    make: (pieces, types) => ({ prepared: withPlaceholders(pieces, types), pieces }),
  });

  /**
   * Adapts a pool or connection.
   *
   * @param target The pool or connection, of either API.
   * @param options Whether nobody else begins transactions on it; whether statements are prepared on
   * the server; the pool again, if the library made it and so ends it.
   */
  constructor(
    target: Mysql2Target,
    options: { exclusive: boolean; prepare: boolean; opened?: Mysql2OwnPool },
  ) {
    const core = coreOf(target);
    if (core === undefined) {
      throw new ConfigurationError(
        "Cannot open store: the target must be a pool or connection of mysql2: received another",
      );
    }
    this.#prepare = options.prepare;
    this.#source = isPool(core) ? new PoolSource(core) : new SingleSource(core, options.exclusive);
    this.#close = options.opened === undefined ? () => Promise.resolve() : endOf(options.opened);
  }

  /** Asks what the server is, and refuses settings of the session that cannot be undone. */
  server(options: QueryOptions): Promise<ServerInfo> {
    return this.#hold(options, async (held) => {
      const { rows: [row] } = await this.#run(held, selectServer, options);
      if (row === undefined) throw new ConfigurationError("Cannot open store: received no version");
      refuseSession(row);
      this.#charset = held.connection.config.charsetNumber;
      return serverInfo(row.text("version"));
    });
  }

  /** Runs one statement on a connection that nobody else uses meanwhile. */
  query(statement: Statement, options: QueryOptions): Promise<QueryResult> {
    if (this.#source.shared) return this.#queryInTurn(statement, options);
    // The way of a reserve: without a promise but the one that it returns.
    return new Promise((resolve, reject) => {
      this.#source.take(options, (error, held) => {
        if (held === undefined) return reject(error);
        this.#send(held.connection, statement, (error, answer) => {
          if (answer === undefined) {
            held.end(isHarmless(error));
            reject(error);
          } else if (isInTransaction(answer)) {
            held.end(false);
            reject(inTransaction(options.name));
          } else {
            held.end(true);
            resolve(answer);
          }
        });
      });
    });
  }

  /** Runs a transaction on a connection that nobody else uses meanwhile. */
  transaction<T>(script: TransactionScript<T>, options: QueryOptions): Promise<T> {
    return this.#hold(options, async (held) => {
      await this.#waitOut(held, options);
      try {
        this.#expectOpen(await this.#run(held, begin, options), options);
        const value = await runScript(script, async (statement) => {
          const answer = await this.#run(held, statement, options);
          if (answer.status !== undefined) this.#expectOpen(answer, options);
          return answer;
        });
        const ended = await this.#run(held, commit, options);
        if (isInTransaction(ended)) throw new NotKeptError(options.name);
        return value;
      } catch (error) {
        // Also after a lock wait, which the server ends without ending the transaction.
        const undone = this.#answer(held, rollback).then(() => true, () => false);
        const { name, deadline } = options;
        const isUndone = !deadline.over && await deadline.race(name, undone).catch(() => false);
        if (!isUndone || error instanceof NotKeptError) held.end(false);
        throw error;
      }
    });
  }

  /**
   * Runs statements in a transaction of the application's, on the connection that it began on. Each takes
   * one more round trip: the driver does not tell of a select whether a transaction is open.
   */
  session(transaction: unknown): Session {
    const core = coreOf(transaction);
    const unusable = new ConfigurationError(
      "Cannot use transaction: it must be the connection of mysql2 on which it was begun, and still be open",
    );
    if (core === undefined || isPool(core)) throw unusable;
    const send = (statement: Statement): Promise<Answer> =>
      new Promise((resolve, reject) => {
        this.#send(core, statement, (error, answer) => answer ? resolve(answer) : reject(error));
      });
    return {
      async query(statement) {
        if (!isInTransaction(await send(probe))) throw unusable;
        return await send(statement);
      },
    };
  }

  /** Ends the pool if the library made it; else does nothing. */
  close(): Promise<void> {
    return this.#close();
  }

  /** Runs one statement on a single connection, once no transaction is open on it. */
  #queryInTurn(statement: Statement, options: QueryOptions): Promise<QueryResult> {
    return this.#hold(options, async (held) => {
      for (;;) {
        const answer = await this.#run(held, statement, options);
        if (!isInTransaction(answer)) return answer;
        // What it wrote is that transaction's: a gap if it commits, nothing if it does not.
        await this.#waitOut(held, options);
      }
    });
  }

  /** Waits until no transaction is open; on a connection out of a pool it refuses at once. */
  async #waitOut(held: Held, options: QueryOptions): Promise<void> {
    const { name, deadline } = options;
    try {
      for (let waitMs = firstWaitMs;; waitMs = Math.min(longestWaitMs, waitMs * 2)) {
        if (!isInTransaction(await this.#run(held, probe, options))) return;
        const error = inTransaction(name);
        if (!held.shared) throw error;
        deadline.blockedBy = error;
        await deadline.sleep(waitMs, name);
      }
    } finally {
      deadline.blockedBy = undefined;
    }
  }

  #expectOpen(answer: Answer, options: QueryOptions): void {
    if (!isInTransaction(answer)) throw new NotKeptError(options.name);
  }

  /** Takes a connection for some work, and gives it back. */
  async #hold<T>(options: QueryOptions, work: (held: Held) => Promise<T>): Promise<T> {
    const held = await new Promise<Held>((resolve, reject) => {
      this.#source.take(options, (error, held) => held ? resolve(held) : reject(error));
    });
    let harmless = false;
    try {
      const value = await work(held);
      harmless = true;
      return value;
    } catch (error) {
      harmless = !options.deadline.over && isHarmless(error);
      throw error;
    } finally {
      held.end(harmless);
    }
  }

  #run(held: Held, statement: Statement, options: QueryOptions): Promise<Answer> {
    options.deadline.check(options.name);
    return options.deadline.race(options.name, this.#answer(held, statement));
  }

  #answer(held: Held, statement: Statement): Promise<Answer> {
    const answer = new Promise<Answer>((resolve, reject) => {
      this.#send(held.connection, statement, (error, answer) => {
        if (answer === undefined) reject(error);
        else resolve(answer);
      });
    });
    held.pending = answer.catch(() => {});
    return answer;
  }

  #send(connection: Mysql2Connection, statement: Statement, answered: Answered): void {
    const { text, values } = this.#renderer.render(statement);
    const done: Mysql2Callback = (error, result, fields) => {
      if (error) return answered(error);
      // What throws in a callback of the driver's ends its connection, or the process.
      let answer: Answer;
      try {
        answer = answerOf(result, fields);
      } catch (error) {
        return answered(error);
      }
      answered(undefined, answer);
    };
    try {
      this.#refuseCharset(connection);
      if (this.#prepare && values.length > 0) {
        connection.execute(queryOf(text.prepared, values), done);
      } else {
        const literal = withLiterals(text.pieces, values);
        refuseFormat(connection, literal);
        connection.query(queryOf(literal, []), done);
      }
    } catch (error) {
      answered(error);
    }
  }

  /** The driver would write a text in another character set, in which keys can become one. */
  #refuseCharset({ config: { charsetNumber } }: Mysql2Connection): void {
    if (charsetNumber === this.#charset || this.#charset === undefined) return;
    if (charsetNumber !== undefined && isUtf8mb4(charsetNumber)) return;
    throw new ConfigurationError(
      `Cannot use connection: its character set must stay utf8mb4: received collation ` +
        `${charsetNumber}`,
    );
  }
}

/** What looks like a pool or connection of `mysql2`, of either API, as the one with callbacks. */
function coreOf(target: unknown): Mysql2Pool | Mysql2Connection | undefined {
  if (isCore(target)) return target;
  if (typeof target !== "object" || target === null) return undefined;
  if ("pool" in target && isCore(target.pool)) return target.pool;
  return "connection" in target && isCore(target.connection) ? target.connection : undefined;
}

/** Whether something looks like a pool or connection of `mysql2`. */
export function isMysql2(target: unknown): target is Mysql2Target {
  return coreOf(target) !== undefined;
}

function isCore(value: unknown): value is Mysql2Pool | Mysql2Connection {
  // A part of a cluster has no settings: its connections are of different servers.
  if (typeof value !== "object" || value === null || "connection" in value) return false;
  if (!("execute" in value && "config" in value && typeof value.config === "object")) return false;
  return "getConnection" in value || "format" in value;
}

function isPool(core: Mysql2Pool | Mysql2Connection): core is Mysql2Pool {
  return "getConnection" in core;
}

/** A connection that is held for a statement or transaction. */
interface Held {
  readonly connection: Mysql2Connection;
  /** Whether the application sends statements of its own on it. */
  readonly shared: boolean;
  /** Settles when the last statement that was sent has. */
  pending: Promise<unknown>;
  /** Gives it back; one whose state is not known is not used again as it is. */
  end(harmless: boolean): void;
}

/** Where connections come from. */
interface Source {
  /** Whether the application sends statements of its own on them. */
  readonly shared: boolean;
  /** Takes one. */
  take(options: QueryOptions, taken: (error: unknown, held?: Held) => void): void;
}

class PoolSource implements Source {
  readonly shared = false;
  readonly #pool: Mysql2Pool;

  constructor(pool: Mysql2Pool) {
    this.#pool = pool;
  }

  take({ name, deadline }: QueryOptions, taken: (error: unknown, held?: Held) => void): void {
    this.#pool.getConnection((error, connection) => {
      if (error) return taken(error);
      if (deadline.over) {
        connection.release();
        return taken(deadline.error(name, "nothing"));
      }
      taken(undefined, new PooledConnection(connection, deadline));
    });
  }
}

/** A connection that was taken out of a pool. At the deadline it is destroyed. */
class PooledConnection implements Held {
  readonly connection: Mysql2PooledConnection;
  readonly shared = false;
  pending: Promise<unknown> = settled;
  readonly #waiter: Waiter;
  #ended = false;

  constructor(connection: Mysql2PooledConnection, deadline: Deadline) {
    this.connection = connection;
    this.#waiter = deadline.onOver(() => this.end(false));
  }

  end(harmless: boolean): void {
    // A connection that breaks tells some statements twice, and may be another's by then.
    if (this.#ended) return;
    this.#ended = true;
    this.#waiter.end();
    if (harmless) this.connection.release();
    else discard(this.connection);
  }
}

class SingleSource implements Source {
  readonly shared = true;
  readonly #connection: Mysql2Connection;
  readonly #turns: Turns;

  constructor(connection: Mysql2Connection, exclusive: boolean) {
    if (!exclusive) {
      throw new ConfigurationError(
        "Cannot open store: a single connection may be inside a transaction of the application's, " +
          "pass a pool, or exclusive: true if nothing else begins one on it: received a connection " +
          "of mysql2",
      );
    }
    this.#connection = connection;
    this.#turns = turnsOf.get(connection) ?? new Turns();
    turnsOf.set(connection, this.#turns);
  }

  take({ name, deadline }: QueryOptions, taken: (error: unknown, held?: Held) => void): void {
    const turn = this.#turns.take();
    const connection = this.#connection;
    deadline.race(name, turn).then((end) => {
      const held: Held = {
        connection,
        shared: true,
        pending: settled,
        // A statement whose deadline passed is still under way: the turn lasts until it has ended.
        end: () => void held.pending.then(end),
      };
      taken(undefined, held);
    }, (error) => {
      turn.then((late) => late());
      taken(error);
    });
  }
}

const settled: Promise<unknown> = Promise.resolve();

/** The turns on connections that several stores may share. */
const turnsOf = new WeakMap<Mysql2Connection, Turns>();

/** Ends a connection at once: the driver alone would wait for a server that may never answer. */
function discard(connection: Mysql2Connection & { stream?: { destroy?(): void } }): void {
  connection.destroy();
  connection.stream?.destroy?.();
}

/** Ends a pool that the library made, and what is still under way on it after a while. */
function endOf(pool: Mysql2OwnPool): () => Promise<void> {
  const connections = new Set<Mysql2Connection>();
  pool.on("connection", (connection: Mysql2Connection & { stream?: { destroyed?: boolean } }) => {
    for (const known of connections) if (isGone(known)) connections.delete(known);
    connections.add(connection);
  });
  return () =>
    new Promise((resolve) => {
      const ended = () => {
        clearTimeout(timer);
        for (const connection of connections) discard(connection);
        resolve();
      };
      const timer = setTimeout(ended, endTimeoutMs);
      pool.end(ended);
    });
}

function isGone({ stream }: Mysql2Connection & { stream?: { destroyed?: boolean } }): boolean {
  return stream?.destroyed === true;
}

function queryOf(sql: string, values: Bindable[]): Mysql2Query {
  return {
    sql,
    values,
    rowsAsArray: true,
    nestTables: false,
    typeCast: asRead,
    supportBigNumbers: true,
    namedPlaceholders: false,
  };
}

function withPlaceholders(pieces: readonly string[], types: readonly BindableType[]): string {
  return pieces.reduce((text, piece, index) => {
    const type = types[index - 1];
    return `${text}${type === "bigint" || type === "number" ? boundInteger : "?"}${piece}`;
  });
}

function withLiterals(pieces: readonly string[], values: readonly Bindable[]): string {
  return pieces.reduce((text, piece, index) => {
    const value = values[index - 1];
    return `${text}${literalOf(value ?? null)}${piece}`;
  });
}

function literalOf(value: Bindable): string {
  if (value === null) return "null";
  if (typeof value === "string") return textLiteral(value);
  return typeof value === "boolean" ? value ? "1" : "0" : `(${value})`;
}

/** An application's `queryFormat` may do as it likes with every text; ours need nothing done. */
function refuseFormat(
  connection: Mysql2Connection & { config: { queryFormat?: unknown } },
  text: string,
): void {
  if (typeof connection.config.queryFormat !== "function") return;
  if (connection.format(text, []) === text) return;
  throw new ConfigurationError(
    "Cannot use connection: the setting queryFormat of mysql2 changes texts without placeholders, " +
      "turn it off: received a function that does",
  );
}

function refuseSession(row: Row): void {
  if (!row.boolean("autocommit")) {
    throw new ConfigurationError(
      "Cannot open store: the setting autocommit must be on, else what is written counts only once " +
        "the application commits it: received 0",
    );
  }
  if (row.text("completion_type") !== "NO_CHAIN") {
    throw new ConfigurationError(
      "Cannot open store: the setting completion_type must be NO_CHAIN, else the end of a " +
        `transaction begins another, or ends the connection: received ${
          row.text("completion_type")
        }`,
    );
  }
  for (const name of ["character_set_client", "character_set_connection"]) {
    if (row.text(name) !== "utf8mb4") {
      throw new ConfigurationError(
        `Cannot open store: the setting ${name}, which is the driver's charset, must be utf8mb4, ` +
          `else different keys can become one: received ${row.text(name)}`,
      );
    }
  }
}

/** The product and version out of what `version()` gave, such as "10.11.19-MariaDB-0+deb12u1". */
function serverInfo(text: string): ServerInfo {
  const product = /mariadb/i.test(text) ? "MariaDB" : /tidb/i.test(text) ? "TiDB" : "MySQL";
  const [version = text] = /[0-9]+(\.[0-9]+)*(?=-mariadb)/i.exec(text) ??
    /[0-9]+(\.[0-9]+)*/.exec(text) ?? [];
  return { product, version };
}

/** A header, or rows with their columns. */
function answerOf(result: unknown, fields: unknown): Answer {
  if (Array.isArray(result)) {
    const names = (fields as { name: string }[]).map((field) => field.name);
    const rows = result.map((cells) => new Row(names, cells));
    return { rows, affected: rows.length, status: undefined };
  }
  const { affectedRows, insertId, serverStatus } = result as {
    affectedRows: number;
    insertId: number | string;
    serverStatus: number;
  };
  return {
    rows: [],
    affected: Number(affectedRows),
    generatedKey: BigInt(insertId),
    status: serverStatus,
  };
}

function isInTransaction({ status = 0 }: Answer): boolean {
  return (status & statusInTransaction) !== 0;
}

/** Whether a connection can be used again after an error. */
function isHarmless(error: unknown): boolean {
  if (error instanceof ConfigurationError) return true;
  if (!(error instanceof Error) || !("errno" in error) || Number(error.errno) <= 0) return false;
  const kind = mysqlDialect.classify(error);
  // A connection to a demoted primary would stay with it.
  return kind !== "connection" && kind !== "readOnly";
}

/** A transaction is not in the state into which it was brought. */
class NotKeptError extends ConfigurationError {
  constructor(name: string) {
    super(
      `Cannot run ${name}: the server says that the transaction which was begun, or ended, is not: ` +
        `a proxy in between must not send its statements to different connections`,
    );
  }
}
