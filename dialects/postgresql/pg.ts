/**
 * PostgreSQL over `pg` (node-postgres).
 *
 * - Each statement, or transaction, runs on a connection that is taken out of the pool for it. If its
 *   deadline passes while it is under way, the connection is destroyed rather than put back.
 * - Statements are named, so the driver prepares each once on a connection; one round trip, also the
 *   first time.
 * - Values travel as text, and rows are read without the application's type parsers. The setting
 *   `binary` cannot be undone for a statement, and the driver damages 64-bit integers with it: it is
 *   refused.
 * - The server's answers say whether a transaction is open. A connection that comes out of the pool
 *   inside one, or whose answer says so, is refused.
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
import { inTransaction, Turns, waitOut } from "../../core/sql/exclusive.ts";
import { type QueryResult, Row } from "../../core/sql/row.ts";
import { doubleQuoted, Renderer, type Statement } from "../../core/sql/statement.ts";
import {
  alreadyBegun,
  begin,
  beginPlainly,
  commit,
  nothingBegun,
  rollback,
  RolledBackError,
  selectVersion,
  setIsolation,
} from "./dialect.ts";
import { numbered, parameterText, serverInfo } from "../shared/protocol.ts";

/** A statement as `pg` takes it. */
export interface PgQuery {
  /** The text, with `$1` for the first value. */
  text: string;
  /** The values. */
  values: (string | null)[];
  /** The name under which it is prepared. */
  name?: string;
  /** Asks for rows as arrays. */
  rowMode: "array";
  /** The parsers of the columns. */
  types: {
    getTypeParser(type: number, format?: string): (value: never) => unknown;
  };
}

/** A result of `pg`, as far as it is used. */
export interface PgResult {
  /** The rows, as arrays. */
  rows: unknown[][];
  /** The columns. */
  fields: { name: string }[];
  /** How many rows the statement returned or changed. */
  rowCount: number | null;
  /** What the server did, such as "COMMIT". */
  command: string;
}

/** A connection of `pg`, as far as it is used. */
export interface PgConnection {
  /** Runs a statement. */
  query(query: PgQuery): Promise<PgResult>;
  /** Listens for the connection's failure. */
  on(event: "error", listener: (error: Error) => void): unknown;
  /** Listens for warnings. */
  on(event: "notice", listener: (notice: { code?: string }) => void): unknown;
  /** Takes a listener back. */
  removeListener(event: string, listener: (message: { code?: string }) => void): unknown;
  /** Whether a transaction is open: "I" if none is. Versions without it are refused. */
  getTransactionStatus?(): string | null;
  /** Whether results come in the binary format. */
  readonly binary?: boolean;
}

/** A connection that was taken out of a pool. */
export interface PgPooledConnection extends PgConnection {
  /** Puts it back, or destroys it. */
  release(destroy?: boolean): void;
}

/** A pool of `pg`, as far as it is used: a `Pool`. */
export interface PgPool {
  /** How many connections it has. */
  readonly totalCount: number;
  /** Takes a connection out of the pool. */
  connect(): Promise<PgPooledConnection>;
}

/** How the adapter gets hold of a connection. */
interface Held {
  readonly connection: PgConnection;
  /** Whether the application sends statements of its own on it. */
  readonly shared: boolean;
  /** Settles when the last statement that was sent on it has. */
  pending: Promise<unknown>;
  /** Puts it back; a connection whose state is not known is not used again as it is. */
  readonly giveBack: (clean: boolean) => void;
}

/** A result, and what the server did. */
type Answer = QueryResult & { readonly command: string };

/** The warnings of the server on a connection. */
class Warnings {
  readonly #connection: PgConnection;
  readonly #codes = new Set<string>();
  readonly #note = ({ code }: { code?: string }): void => {
    if (code !== undefined) this.#codes.add(code);
  };

  constructor(connection: PgConnection) {
    this.#connection = connection;
    connection.on("notice", this.#note);
  }

  of(code: string): boolean {
    return this.#codes.has(code);
  }

  forget(): void {
    this.#codes.clear();
  }

  end(): void {
    this.#connection.removeListener("notice", this.#note);
  }
}

/** Gives every value as the text that came from the server. */
const asText: PgQuery["types"] = { getTypeParser: () => (value) => value };

/** PostgreSQL over a pool of `pg`, or over one of its clients that nobody else uses. */
export class PgClient implements Client {
  readonly family = "postgresql";
  readonly #take: (options: QueryOptions) => Promise<Held>;
  readonly #prepare: boolean;
  readonly #renderer: Renderer<{ text: string; name: string }>;

  /**
   * Adapts a pool or client.
   *
   * @param target The pool or client.
   * @param options Whether it is used by nobody else; whether statements are prepared on the server.
   */
  constructor(
    target: PgPool | PgConnection,
    options: { exclusive: boolean; prepare: boolean },
  ) {
    this.#prepare = options.prepare;
    this.#take = isPool(target)
      ? (call) => takeFromPool(target, call)
      : takeInTurns(target, options.exclusive);
    this.#renderer = new Renderer({
      quote: doubleQuoted,
      make: (pieces) => named(numbered(pieces)),
    });
  }

  /** Asks for the version of the server. */
  async server(options: QueryOptions): Promise<ServerInfo> {
    return serverInfo(await this.query(selectVersion, options));
  }

  /** Runs one statement on a connection that nobody else uses meanwhile. */
  query(statement: Statement, options: QueryOptions): Promise<QueryResult> {
    return this.#hold(options, async (held) => {
      const result = await this.#run(held, statement, options);
      if (isOpen(held.connection)) throw inTransaction(options.name);
      return result;
    });
  }

  /** Runs a transaction on a connection that nobody else uses meanwhile. */
  transaction<T>(script: TransactionScript<T>, options: QueryOptions): Promise<T> {
    return this.#hold(options, async (held) => {
      const warned = new Warnings(held.connection);
      let ours = !held.shared;
      try {
        if (held.shared) {
          await this.#beginAlone(held, { ...options, warned });
          ours = true;
        } else await this.#run(held, begin, options);
        const value = await runScript(script, (statement) => this.#run(held, statement, options));
        const { command } = await this.#run(held, commit, options);
        // Somebody's rollback came between, or the server had aborted it.
        if (warned.of(nothingBegun)) throw inTransaction(options.name);
        if (command !== "COMMIT") throw new RolledBackError();
        return value;
      } catch (error) {
        // The connection is not used before this has ended; where it fails, it is not used again.
        const undone = ours ? this.#send(held, rollback).catch(() => {}) : undefined;
        if (!options.deadline.over) await undone;
        throw error;
      } finally {
        warned.end();
      }
    });
  }

  /**
   * Begins a transaction on a connection on which the application's own `begin` may have been queued
   * before. The server says so by a warning; then nothing has begun, and that one is waited out.
   */
  async #beginAlone(held: Held, options: QueryOptions & { warned: Warnings }): Promise<void> {
    do {
      await waitOut(() => isOpen(held.connection), options);
      options.warned.forget();
      await this.#run(held, beginPlainly, options);
    } while (options.warned.of(alreadyBegun));
    await this.#run(held, setIsolation, options);
  }

  /** Runs statements in a transaction of the application's, on the connection that it began on. */
  session(transaction: unknown): Session {
    if (!isConnection(transaction) || isPool(transaction) || !isOpen(transaction)) {
      throw new ConfigurationError(
        "Cannot use transaction: it must be the client of pg on which it was begun, and still be open",
      );
    }
    const held: Held = {
      connection: transaction,
      shared: true,
      pending: Promise.resolve(),
      giveBack: () => {},
    };
    return { query: (statement) => this.#send(held, statement) };
  }

  /** Does nothing: what the adapter works with was given to it. */
  close(): Promise<void> {
    return Promise.resolve();
  }

  async #hold<T>(options: QueryOptions, work: (held: Held) => Promise<T>): Promise<T> {
    const held = await this.#take(options);
    let clean = false;
    try {
      const value = await work(held);
      clean = true;
      return value;
    } catch (error) {
      clean = !options.deadline.over && isFromServer(error) && !isOpen(held.connection);
      throw error;
    } finally {
      held.giveBack(clean);
    }
  }

  #run(held: Held, statement: Statement, options: QueryOptions): Promise<Answer> {
    options.deadline.check(options.name);
    return options.deadline.race(options.name, this.#send(held, statement));
  }

  async #send(held: Held, statement: Statement): Promise<Answer> {
    const { text: { text, name }, values } = this.#renderer.render(statement, parameterText);
    const query: PgQuery = { text, values, rowMode: "array", types: asText };
    if (this.#prepare && values.length > 0) query.name = name;
    const answer = held.connection.query(query);
    held.pending = answer.catch(() => {});
    const { rows, fields, rowCount, command } = await answer;
    const names = fields.map((field) => field.name);
    return { rows: rows.map((cells) => new Row(names, cells)), affected: rowCount ?? 0, command };
  }
}

/** Whether something looks like a pool or a client of `pg`. */
export function isPg(value: unknown): value is PgPool | PgConnection {
  return isConnection(value) && "connect" in value && typeof value.connect === "function";
}

function isConnection(value: unknown): value is PgConnection {
  return typeof value === "object" && value !== null && "query" in value &&
    typeof value.query === "function";
}

function isPool(value: PgPool | PgConnection): value is PgPool {
  return "totalCount" in value;
}

function isOpen(connection: PgConnection): boolean {
  // Null before the first statement.
  const status = connection.getTransactionStatus?.() ?? "I";
  return status !== "I";
}

/**
 * Names a text by a hash of it (FNV-1a, 64 bits), so that all stores on a pool share what is prepared.
 * If two texts ever had one name, the driver would refuse the second.
 */
function named(text: string): { text: string; name: string } {
  let hash = 0xcbf29ce484222325n;
  for (const byte of new TextEncoder().encode(text)) {
    hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
  }
  return { text, name: `fencepost_${hash.toString(16).padStart(16, "0")}` };
}

/** The server answered with an error, so the connection is in step; else nobody knows. */
function isFromServer(error: unknown): boolean {
  return error instanceof Error && "severity" in error;
}

async function takeFromPool(pool: PgPool, options: QueryOptions): Promise<Held> {
  const { name, deadline } = options;
  const coming = pool.connect();
  const connection = await deadline.race(name, coming).catch((error) => {
    coming.then((late) => late.release(), () => {});
    throw error;
  });
  // A connection that fails while it is out of the pool would end the process if nobody listened. Its
  // statement is rejected as well, so there is nothing to do.
  const onError = () => {};
  connection.on("error", onError);
  const giveBack = (clean: boolean) => {
    if (clean) connection.removeListener("error", onError);
    connection.release(!clean);
  };
  try {
    refuseUnusable(connection);
    if (isOpen(connection)) throw inTransaction(name);
  } catch (error) {
    giveBack(true);
    throw error;
  }
  return { connection, shared: false, pending: Promise.resolve(), giveBack };
}

function takeInTurns(
  connection: PgConnection,
  exclusive: boolean,
): (options: QueryOptions) => Promise<Held> {
  if (!exclusive) {
    throw new ConfigurationError(
      "Cannot open store: a single client may be inside a transaction of the application's, pass " +
        "a Pool, or exclusive: true if nothing else sends begin on it: received a client of pg",
    );
  }
  refuseUnusable(connection);
  const turns = turnsOf.get(connection) ?? new Turns();
  turnsOf.set(connection, turns);
  return async (options) => {
    const { name, deadline } = options;
    const turn = turns.take();
    const end = await deadline.race(name, turn).catch((error) => {
      turn.then((late) => late());
      throw error;
    });
    // A statement whose deadline passed is still under way: the turn lasts until it has ended.
    const held: Held = {
      connection,
      shared: true,
      pending: Promise.resolve(),
      giveBack: () => void held.pending.then(end),
    };
    try {
      await waitOut(() => isOpen(connection), options);
    } catch (error) {
      end();
      throw error;
    }
    return held;
  };
}

/** The turns on connections that several stores may share. */
const turnsOf = new WeakMap<PgConnection, Turns>();

function refuseUnusable(connection: PgConnection): void {
  if (connection.getTransactionStatus === undefined) {
    throw new ConfigurationError(
      "Cannot open store: this version of pg does not tell whether a transaction is open, use 8.21 " +
        "or later: received a client without getTransactionStatus",
    );
  }
  if (connection.binary) {
    throw new ConfigurationError(
      "Cannot open store: the setting binary of pg damages 64-bit integers, turn it off: received " +
        "true",
    );
  }
}
