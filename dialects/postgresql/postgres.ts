/**
 * PostgreSQL over `postgres` (postgres.js).
 *
 * - A transaction is committed by a statement of ours, whose answer must be COMMIT. The driver's own
 *   takes a rollback for success: it sends a prepared statement, and if the server has lost that one,
 *   the failure ends the transaction and the second attempt answers ROLLBACK without an error.
 * - The driver tells nobody whether a connection is inside a transaction. One that was begun by hand,
 *   not by `sql.begin`, is seen only once it has written something.
 *
 * How the driver is used otherwise is the same for every server of the protocol.
 *
 * @module
 */

import {
  type QueryOptions,
  runScript,
  type ServerInfo,
  type TransactionScript,
} from "../../core/sql/client.ts";
import type { Statement } from "../../core/sql/statement.ts";
import {
  endsConnection,
  type PostgresJsOptions,
  PostgresJsPool,
  type PostgresJsRunner,
  type PostgresJsSql,
  throwLater,
} from "../shared/postgres_js.ts";
import { numbered, serverInfo } from "../shared/protocol.ts";
import { commitAndChain, isolation, RolledBackError, selectVersion } from "./dialect.ts";

/** PostgreSQL over a pool of postgres.js. */
export class PostgresJsClient extends PostgresJsPool {
  /** PostgreSQL. */
  override readonly family = "postgresql";

  /**
   * Adapts a pool.
   *
   * @param sql The pool.
   * @param options How it is used.
   */
  constructor(sql: PostgresJsSql, options: PostgresJsOptions) {
    super(sql, { ...options, make: numbered });
  }

  /** Asks for the version of the server. */
  override async server(options: QueryOptions): Promise<ServerInfo> {
    return serverInfo(await this.query(selectVersion, options));
  }

  /** Runs a transaction on a connection of its own. */
  override async transaction<T>(script: TransactionScript<T>, options: QueryOptions): Promise<T> {
    const { name, deadline } = options;
    let committed: { value: T } | undefined;
    let gone = false;
    const work = async (transaction: PostgresJsRunner) => {
      const send = (statement: Statement) => {
        // Leaving early makes the driver send a rollback, behind the statement that is under way.
        deadline.check(name);
        const sent = this.send(transaction, statement).catch((error) => {
          gone ||= endsConnection(error);
          throw error;
        });
        return deadline.race(name, sent);
      };
      const run = async (statement: Statement) => this.resultOf(await send(statement));
      const value = await runScript(script, run);
      const { command } = await send(commitAndChain);
      if (command !== "COMMIT") throw new RolledBackError();
      committed = { value };
    };
    try {
      await this.sql.begin(isolation, (transaction) =>
        work(transaction).catch((error) => {
          if (!gone) throw error;
          // The driver would send its rollback on what is closed, and throw where nobody catches. It
          // rejects by itself, because its connection has ended.
          return new Promise<never>(() => {});
        }));
    } catch (error) {
      // Once it is committed, the driver's own end of the empty transaction that follows may fail.
      if (committed === undefined) await throwLater(error);
    }
    if (committed === undefined) throw new RolledBackError();
    return committed.value;
  }
}
