/**
 * H2 over `postgres` (postgres.js), by H2's server of the PostgreSQL protocol.
 *
 * How the driver is used is the same for every server of the protocol. What is H2's own:
 *
 * - Parameters have no types there, so each is cast by the type of its value.
 * - The driver must not ask the server for its types (`fetch_types`), which H2 cannot answer: the
 *   rejection reaches nobody and ends the process. That is refused by name when the store opens.
 * - **Prepared statements** are best left on: then a statement takes one round trip, without them two.
 *   Without them, moreover, H2 runs the statement before once more, with the values of one that it
 *   could not parse. So a pool with `prepare: false` is taken, but not advised.
 * - After a statement that H2 could not parse, the application's too, it answers once more than it was
 *   asked. A connection that is busy then may give statements the answers to others for a while. What
 *   is no answer at all is refused, and a reserve takes only the row with its own number; `seal` and
 *   `advance` have no such mark. Why it could not be parsed is asked for by a second statement.
 * - A transaction has the isolation of its session, for H2 knows none of a transaction's own. Every level
 *   gives each value once. In READ UNCOMMITTED a key that several start at once may be refused, with
 *   `ReserveConflictError`, by the plan `transaction`.
 * - **A deadlock ends the transaction** on the server, and the driver takes its connection back at
 *   once, but would still send its rollback on it, into whatever is there by then. So its callback is
 *   never left after such an error. For an application's own transaction the driver does send it;
 *   so the first statement of each transaction goes out together with the question whether the
 *   transaction is still open.
 * - A session that was killed rolls back what its transaction wrote, and may take its commit without a
 *   word. So a transaction counts only once the connection has answered another statement, which goes
 *   out with the commit, and only if it was the same transaction all along.
 * - H2 does not answer a wrong password, and the driver tries again: the deadline ends that.
 *
 * Round trips of a prepared statement that the connection has run before: one; of a transaction: one
 * to begin, one for each statement, one to commit.
 *
 * @module
 */

import {
  type QueryOptions,
  runScript,
  type ServerInfo,
  type TransactionScript,
} from "../../core/sql/client.ts";
import { ConfigurationError } from "../../core/errors.ts";
import type { QueryResult } from "../../core/sql/row.ts";
import type { BindableType, Statement } from "../../core/sql/statement.ts";
import {
  isFromServer,
  laterTurn,
  type PostgresJsOptions,
  PostgresJsPool,
  type PostgresJsResult,
  type PostgresJsRunner,
  type PostgresJsSql,
  throwLater,
} from "../shared/postgres_js.ts";
import { serverInfo } from "../shared/protocol.ts";
import {
  AnswerError,
  commit,
  EndedError,
  notParsed,
  selectEnded,
  selectOtherVersion,
  selectTransaction,
  selectVersion,
  transactionEnded,
  unknownFunction,
  valueMissing,
} from "./dialect.ts";

/** H2 over a pool of postgres.js. */
export class H2PostgresJsClient extends PostgresJsPool {
  /** H2. */
  override readonly family = "h2";

  /**
   * Adapts a pool.
   *
   * @param sql The pool.
   * @param options How it is used.
   */
  constructor(sql: PostgresJsSql, options: PostgresJsOptions) {
    super(sql, { ...options, make: cast });
    if (sql.options.fetch_types) {
      throw new ConfigurationError(
        "Cannot open store: the setting fetch_types of postgres.js asks H2 for what it does not " +
          "know, set it to false: received true",
      );
    }
  }

  /** Asks for the version of H2, or of what is there in its place. */
  override async server(options: QueryOptions): Promise<ServerInfo> {
    try {
      const { rows } = await this.query(selectVersion, options);
      return { product: "H2", version: rows[0]?.text("version") ?? "" };
    } catch (error) {
      if (codeOf(error) !== unknownFunction) throw error;
      return serverInfo(await this.query(selectOtherVersion, options));
    }
  }

  /** Runs a transaction on a connection of its own. */
  override transaction<T>(script: TransactionScript<T>, options: QueryOptions): Promise<T> {
    return new Promise((resolve, reject) => {
      const work = async (transaction: PostgresJsRunner) => {
        const { name, deadline } = options;
        const send = async (statement: Statement) => {
          // Leaving early makes the driver send a rollback, behind the statement that is under way.
          deadline.check(name);
          return this.resultOf(await deadline.race(name, this.send(transaction, statement)));
        };
        try {
          const { value, id } = await runOpen(script, send);
          deadline.check(name);
          const { open, error } = await end(send, id);
          if (open) throw error;
          if (error === undefined) resolve(value);
          else reject(error);
        } catch (error) {
          if (!hasEnded(error)) throw error;
          reject(error);
        }
        // Left, the driver would end once more what somebody else has begun on the connection by then.
        await new Promise<never>(() => {});
      };
      this.sql.begin("", work).catch(throwLater).catch(reject);
    });
  }

  /** Sends a statement. */
  protected override send(
    runner: PostgresJsRunner,
    statement: Statement,
  ): Promise<PostgresJsResult> {
    return super.send(runner, statement).then(answered, async (error) => {
      if (!isFromServer(error) || codeOf(error) !== notParsed) throw error;
      // The answer too many comes at once. Whoever sends before it has come gets it.
      await laterTurn();
      // Without values nothing is run, but H2 says first what it could not parse.
      const why = await runner.unsafe(this.textOf(statement)).values()
        .then(() => error, (reason: unknown) => reason);
      throw codeOf(why) === valueMissing ? error : why;
    });
  }
}

type Send = (statement: Statement) => Promise<QueryResult>;

/**
 * Runs the statements of a transaction that is open at the first of them.
 *
 * @returns What it gives, and the transaction as it is named since it has changed something.
 */
async function runOpen<T>(
  script: TransactionScript<T>,
  send: Send,
): Promise<{ readonly value: T; readonly id: string | undefined }> {
  const open = isEnded(send).then((ended) => {
    if (ended) throw new EndedError();
  });
  open.catch(() => {});
  let id: string | undefined;
  const value = await runScript(script, async (statement) => {
    const [result, named] = await Promise.all([send(statement), nameOf(send), open]);
    id ??= named;
    if (id !== named || (id === undefined && isWrite(result))) throw new EndedError();
    return result;
  });
  await open;
  return { value, id };
}

function isWrite({ rows, affected }: QueryResult): boolean {
  return rows.length === 0 && affected > 0;
}

/**
 * Commits. A session that is killed is closed and then rolled back, and a commit that is under way
 * says nothing of it. One that still answers behind its commit was not closed before.
 *
 * @returns Why it did not commit for certain, if so, and whether the transaction is known to be open.
 */
async function end(
  send: Send,
  id: string | undefined,
): Promise<{ readonly open: boolean; readonly error?: unknown }> {
  const same = nameOf(send).then((named) => {
    if (named !== id) throw new EndedError();
  });
  const results = await Promise.allSettled([same, send(commit), isEnded(send)]);
  const [, , ended] = results;
  const open = ended.status === "fulfilled" && !ended.value;
  const failed = results.find((result) => result.status === "rejected");
  return { open, error: failed?.reason ?? (open ? new AnswerError() : undefined) };
}

async function nameOf(send: Send): Promise<string | undefined> {
  const { rows: [row] } = await send(selectTransaction);
  if (row === undefined || !row.has("id")) throw new AnswerError();
  return row.isNull("id") ? undefined : row.text("id");
}

async function isEnded(send: Send): Promise<boolean> {
  const { rows: [row] } = await send(selectEnded);
  if (row === undefined || !row.has("ended")) throw new AnswerError();
  return row.boolean("ended");
}

const types: Readonly<Record<BindableType, string | undefined>> = {
  bigint: "bigint",
  boolean: "boolean",
  null: undefined,
  number: "bigint",
  string: "varchar",
};

/** Numbers the parameters of a text, each with the type of its value. */
function cast(pieces: readonly string[], values: readonly BindableType[]): string {
  return pieces.reduce((text, piece, index) => {
    const value = values[index - 1];
    const type = value && types[value];
    return text + (type ? `cast($${index} as ${type})` : `$${index}`) + piece;
  });
}

/** Refuses what the driver takes for the result of a statement whose answer is still to come. */
function answered(result: PostgresJsResult): PostgresJsResult {
  if (result.command === null) throw new AnswerError();
  return result;
}

/** Whether the transaction in which an error came up had ended by then. */
function hasEnded(error: unknown): boolean {
  return error instanceof EndedError ||
    (isFromServer(error) && codeOf(error) === transactionEnded);
}

function codeOf(error: unknown): unknown {
  return typeof error === "object" && error !== null && "code" in error ? error.code : undefined;
}
