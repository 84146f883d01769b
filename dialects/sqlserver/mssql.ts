/**
 * SQL Server over `mssql`, whose driver inside is `tedious`.
 *
 * - Each statement is one batch, given to `sp_executesql`: one round trip, and one plan on the server for
 *   each text. A transaction takes one turn to begin and one to commit besides. A pool of the
 *   application's that is not set up otherwise asks `select 1` before it lends a connection, which is a
 *   turn of its own: `validateConnection: "socket"` saves it.
 * - Before a statement the batch looks whether it has a commit of its own. Where a transaction was left
 *   open on a pooled connection, or its session is in implicit mode, it does nothing and says so, and
 *   the call fails with `InTransactionError`.
 * - Values are bound with types: texts as `nvarchar(4000)`, whatever their length, so that they share
 *   a plan; integers as `bigint`, booleans as one that the text makes a `bit`. The types come from the
 *   pool itself, so nothing is imported for it, and they are always those of the pool's own copy of
 *   the driver.
 * - Rows come as arrays, whatever the pool's `arrayRowMode` and `stream` are. Of several results the
 *   last one counts: a trigger may send others before it. What cannot be undone for a statement is refused
 *   when the store opens: settings of the pool by their name, and a `valueHandler`, which is set for all
 *   pools at once, if it changes what is read.
 * - At the deadline a statement is cancelled on the server: `cancel` of a request hits nothing else. The
 *   pool's `requestTimeout` has no say. One that still waits for a connection is given none.
 * - A transaction keeps the session's isolation level. If its deadline passes, the statement that is
 *   under way is cancelled and the transaction rolled back before the connection goes back to the pool;
 *   if that fails, the connection is closed.
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
import { inTransaction } from "../../core/sql/exclusive.ts";
import { type QueryResult, Row } from "../../core/sql/row.ts";
import {
  type Bindable,
  type BindableType,
  Renderer,
  show,
  type Statement,
} from "../../core/sql/statement.ts";
import { bracketed } from "../../schema/sqlserver.ts";
import {
  alone,
  countColumn,
  counted,
  innermost,
  openColumn,
  selectServer,
  unchanged,
} from "./dialect.ts";

/** A result of `mssql`, as far as it is used: its rows are arrays. */
export interface MssqlResult {
  /** The rows of each result. */
  readonly recordsets: unknown;
  /** The columns of each result. */
  readonly columns?: unknown;
}

/** A request of `mssql`, as far as it is used. */
export interface MssqlRequest {
  /** The parameters, by name. */
  readonly parameters: { readonly [name: string]: { readonly type: unknown } };
  /** Whether rows are events rather than a result. */
  stream: boolean;
  /** Whether rows are arrays. */
  arrayRowMode: boolean;
  /** Binds a value, with the type that the driver has for it. */
  input(name: string, value: unknown): unknown;
  /** Binds a value with a type. `never` stands for whatever the driver takes. */
  input(name: string, type: never, value: unknown): unknown;
  /** Runs a batch. */
  query(text: string): Promise<MssqlResult>;
  /** Ends what is under way; nobody else's. */
  cancel(): unknown;
}

/** A transaction of `mssql`, as far as it is used. */
export interface MssqlTransaction {
  /** The isolation level that it begins with; 0 keeps the session's. */
  isolationLevel: number;
  /** The connection that it holds. The driver has no other way to be rid of one. */
  readonly _acquiredConnection?: { close(): void } | null;
  /** Takes a connection out of the pool, and begins. */
  begin(): Promise<unknown>;
  /** Commits, and gives the connection back. */
  commit(): Promise<unknown>;
  /** Rolls back, and gives the connection back. */
  rollback(): Promise<unknown>;
  /** Makes a request that runs in it. */
  request(): MssqlRequest;
}

/** A pool of `mssql`, as far as it is used: a `ConnectionPool`. */
export interface MssqlPool {
  /** Whether it is open. */
  readonly connected: boolean;
  /** Whether it is being opened. */
  readonly connecting: boolean;
  /** Its settings. */
  readonly config?: { readonly options?: unknown };
  /** Opens it, or waits until it is open. */
  connect(): Promise<unknown>;
  /** Closes it. */
  close(): Promise<unknown>;
  /** Listens for failures of its connections. */
  on(event: "error", listener: (error: unknown) => void): unknown;
  /** Makes a request that runs on any of its connections. */
  request(overrides?: { requestTimeout?: number }): MssqlRequest;
  /** Makes a transaction. */
  transaction(): MssqlTransaction;
}

/** The driver's own types of values. */
interface Types {
  readonly text: (length: number) => never;
  readonly integer: never;
}

const keepIsolation = 0;
const noTimeout = { requestTimeout: 0 };
/** The longest text that is not sent in pieces. */
const longestText = 4_000;
/** What the driver takes for `max`. */
const anyLength = 65_535;

/** Settings of a pool that change what a statement means, or what comes back, and cannot be undone. */
const refused: readonly {
  readonly name: string;
  readonly isSet: (value: unknown) => boolean;
  readonly reason: string;
}[] = [
  {
    name: "columnNameReplacer",
    isSet: (value) => typeof value === "function",
    reason: "changes the names of the columns that the store reads",
  },
  {
    name: "enableImplicitTransactions",
    isSet: (value) => value === true,
    reason: "leaves what the store writes in a transaction that nobody commits",
  },
  {
    name: "tdsVersion",
    isSet: (value) => typeof value === "string" && value < "7_2",
    reason: "cannot begin a transaction without changing the session",
  },
  {
    name: "useColumnNames",
    isSet: (value) => value === true,
    reason: "loses the order of the columns that the store reads",
  },
];

/** SQL Server over a pool of `mssql`. */
export class MssqlClient implements Client {
  readonly family = "sqlserver";
  readonly #pool: MssqlPool;
  readonly #opened: boolean;
  readonly #types: Types;
  readonly #renderer = new Renderer({ quote: bracketed, make: withParameters });
  #connecting: Promise<unknown> | undefined;

  /**
   * Adapts a pool.
   *
   * @param pool The pool.
   * @param options Whether the library made it, and so opens and closes it.
   */
  constructor(pool: MssqlPool, options: { opened: boolean }) {
    refuseUnusable(pool);
    this.#pool = pool;
    this.#opened = options.opened;
    this.#types = typesOf(pool);
    // Without a listener a connection that fails would end the process.
    if (this.#opened) pool.on("error", () => {});
  }

  /** Opens a pool that the library made, asks for the version, and whether values come unchanged. */
  async server(options: QueryOptions): Promise<ServerInfo> {
    if (this.#opened || this.#pool.connecting) {
      this.#connecting = this.#pool.connect();
      await this.#connecting;
    } else if (!this.#pool.connected) {
      throw new ConfigurationError(
        "Cannot open store: the pool of mssql is not open, await its connect() before: received a " +
          "pool that is not connected",
      );
    }
    const { rows: [row] } = await this.query(selectServer, options);
    if (row === undefined) return { product: "", version: "" };
    refuseChanged(row);
    const [product = ""] = /^Microsoft SQL \w+/.exec(row.text("banner")) ?? [];
    return { product, version: row.text("version") };
  }

  /** Runs one statement in a commit of its own. */
  query(statement: Statement, options: QueryOptions): Promise<QueryResult> {
    return this.#run(this.#pool.request(noTimeout), alone(statement), options);
  }

  /** Runs a transaction on a connection of its own. */
  async transaction<T>(script: TransactionScript<T>, options: QueryOptions): Promise<T> {
    const { name, deadline } = options;
    const transaction = this.#pool.transaction();
    transaction.isolationLevel = keepIsolation;
    const beginning = transaction.begin();
    await deadline.race(name, beginning).catch((error) => {
      beginning.then(() => rollBack(transaction), () => {});
      throw error;
    });
    let value: T;
    try {
      value = await runScript(script, (statement) => {
        deadline.check(name);
        return this.#run(transaction.request(), innermost(statement), options);
      });
      deadline.check(name);
    } catch (error) {
      // Nothing was written in a transaction that was open before, and it is not the store's to end.
      if (error instanceof InTransactionError) await transaction.commit().catch(() => {});
      else await rollBack(transaction);
      throw error;
    }
    await transaction.commit();
    return value;
  }

  /** Runs statements in a transaction of the application's: a `Transaction` that has begun. */
  session(transaction: unknown): Session {
    if (!isTransaction(transaction)) {
      throw new ConfigurationError(
        "Cannot use transaction: it must be a Transaction of mssql that has begun",
      );
    }
    return {
      query: async (statement) =>
        resultOf(await this.#send(transaction.request(), counted(statement))),
    };
  }

  /** Closes the pool if the library made it. */
  async close(): Promise<void> {
    if (!this.#opened) return;
    // The driver does not close a pool that is being opened.
    await this.#connecting?.catch(() => {});
    await this.#pool.close();
  }

  async #run(
    request: MssqlRequest,
    statement: Statement,
    { name, deadline }: QueryOptions,
  ): Promise<QueryResult> {
    const answer = this.#send(request, statement);
    const waiter = deadline.onOver(() => void request.cancel());
    try {
      const result = resultOf(await answer);
      if (result.refused) throw inTransaction(name);
      return result;
    } finally {
      waiter.end();
    }
  }

  #send(request: MssqlRequest, statement: Statement): Promise<MssqlResult> {
    const { text, values } = this.#renderer.render(statement);
    request.stream = false;
    request.arrayRowMode = true;
    values.forEach((value, index) => this.#bind(request, `p${index + 1}`, value));
    return request.query(text);
  }

  #bind(request: MssqlRequest, name: string, value: Bindable): void {
    if (value === null || typeof value === "string") {
      const length = value === null || value.length <= longestText ? longestText : anyLength;
      request.input(name, this.#types.text(length), value);
    } else request.input(name, this.#types.integer, BigInt(value));
  }
}

/** Whether something looks like a pool of `mssql`. */
export function isMssqlPool(value: unknown): value is MssqlPool {
  return hasMethods(value, ["connect", "close", "request", "transaction"]);
}

/** Whether something looks like a transaction of `mssql`. */
export function isTransaction(value: unknown): value is MssqlTransaction {
  return hasMethods(value, ["begin", "commit", "rollback", "request"]);
}

function hasMethods(value: unknown, names: readonly string[]): boolean {
  return typeof value === "object" && value !== null &&
    names.every((name) => typeof (value as Record<string, unknown>)[name] === "function");
}

function refuseUnusable(pool: MssqlPool): void {
  // Only the pool over tedious has it. The other driver's rounds integers and cancels otherwise.
  if (!("_config" in pool)) {
    throw new ConfigurationError(
      "Cannot open store: the pool must be one of mssql over tedious, its default: received a pool " +
        "over another driver, such as msnodesqlv8",
    );
  }
  const options = { ...pool.config?.options as Record<string, unknown> | undefined };
  for (const { name, isSet, reason } of refused) {
    if (isSet(options[name])) {
      throw new ConfigurationError(
        `Cannot open store: the setting ${name} of mssql ${reason}, use a pool without it: ` +
          `received ${show(options[name])}`,
      );
    }
  }
}

/** Takes the driver's types off a request: it chooses these two whatever the application's map is. */
function typesOf(pool: MssqlPool): Types {
  const request = pool.request();
  request.input("text", null);
  request.input("integer", 2 ** 40);
  const { text, integer } = request.parameters;
  return { text: text?.type as Types["text"], integer: integer?.type as never };
}

function refuseChanged(row: Row): void {
  for (const [name, wanted] of Object.entries(unchanged)) {
    const read = () =>
      typeof wanted === "bigint"
        ? row.bigint(name)
        : typeof wanted === "boolean"
        ? row.boolean(name)
        : row.text(name);
    let received: unknown;
    try {
      received = read();
    } catch (error) {
      if (!(error instanceof ConfigurationError)) throw error;
      received = "another type";
    }
    if (received !== wanted) {
      throw new ConfigurationError(
        `Cannot open store: a valueHandler of mssql changes what the store reads, it must keep ` +
          `${show(wanted)}: received ${show(received)}`,
      );
    }
  }
}

/** Takes a transaction back. The connection is not used again if that fails. */
async function rollBack(transaction: MssqlTransaction): Promise<void> {
  const connection = transaction._acquiredConnection;
  try {
    await transaction.rollback();
  } catch (error) {
    // The server has done it already.
    const aborted = error instanceof Error && "code" in error && error.code === "EABORT";
    if (!aborted) connection?.close();
  }
}

/** Joins the pieces of a text with parameters, of which a boolean is a bigint that becomes a bit. */
function withParameters(pieces: readonly string[], types: readonly BindableType[]): string {
  return pieces.reduce((text, piece, index) =>
    types[index - 1] === "boolean"
      ? `${text}cast(@p${index} as bit)${piece}`
      : `${text}@p${index}${piece}`
  );
}

/** What a batch gave: of several results the last. */
function resultOf(answer: MssqlResult): QueryResult & { readonly refused: boolean } {
  const cells = (answer.recordsets as unknown[][][]).at(-1) ?? [];
  const columns = (answer.columns as { name: string }[][]).at(-1) ?? [];
  const names = columns.map(({ name }) => name);
  const rows = cells.map((row) => new Row(names, row));
  const refused = names[0] === openColumn;
  if (names[0] === countColumn) {
    return { rows: [], affected: rows[0]?.number(countColumn) ?? 0, refused };
  }
  return { rows, affected: rows.length, refused };
}
