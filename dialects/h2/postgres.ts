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
  EndedError,
  notParsed,
  selectEnded,
  selectOtherVersion,
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
      let value: { readonly given: T } | undefined;
      const work = async (transaction: PostgresJsRunner) => {
        try {
          value = { given: await this.#run(script, transaction, options) };
        } catch (error) {
          if (!hasEnded(error)) throw error;
          reject(error);
          // Left, the driver would send a rollback into what somebody else does on the connection.
          await new Promise<never>(() => {});
        }
      };
      this.sql.begin("", work).catch(throwLater).then(() => value && resolve(value.given))
        .catch(reject);
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

  async #run<T>(
    script: TransactionScript<T>,
    transaction: PostgresJsRunner,
    { name, deadline }: QueryOptions,
  ): Promise<T> {
    const send = async (statement: Statement) => {
      // Leaving early makes the driver send a rollback, behind the statement that is under way.
      deadline.check(name);
      return this.resultOf(await deadline.race(name, this.send(transaction, statement)));
    };
    const open = send(selectEnded).then(({ rows: [row] }) => {
      if (row === undefined || !row.has("ended")) throw new AnswerError();
      if (row.boolean("ended")) throw new EndedError();
    });
    open.catch(() => {});
    const value = await runScript(script, async (statement) => {
      const [result] = await Promise.all([send(statement), open]);
      return result;
    });
    await open;
    return value;
  }
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
