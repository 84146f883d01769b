/**
 * PostgreSQL, over `postgres` and over `pg`.
 *
 * @module
 */

// @ts-types="npm:@types/pg@^8.15.0"
import type pg from "pg";
import type { StoreOptions } from "../../mod.ts";
import {
  openStore,
  PgClient,
  PostgresJsClient,
  type PostgresJsSql,
  postgresqlDialect,
} from "../../dialects/postgresql/mod.ts";
import { anything, type Connected, type Driver, type Drivers, openTransaction } from "./driver.ts";

/** Over either driver. */
export const postgresql: Drivers = (url) => [postgresJs(url, true), nodePostgres(url, true)];

/** Behind a pooler that shares connections between transactions: nothing is prepared. */
export const pgbouncer: Drivers = (url) => [postgresJs(url, false), nodePostgres(url, false)];

function postgresJs(url: string, prepare: boolean): Driver {
  const connect = async (): Promise<Connected> => {
    const { default: postgres } = await import("postgres");
    const pool = postgres(url, { max: 4, prepare, onnotice: () => {} });
    const client = new PostgresJsClient(pool, { opened: false, exclusive: false, prepare });
    const begin = () =>
      openTransaction((hold) =>
        pool.begin((transaction) =>
          hold({
            handle: transaction,
            session: client.session(transaction),
            open: (options) =>
              openStore(anything<PostgresJsSql>(transaction), { ...options, prepare }),
          })
        )
      );
    return { client, begin, end: () => pool.end({ timeout: 1 }) };
  };
  return { name: "postgres", dialect: postgresqlDialect, schema: "public", connect };
}

function nodePostgres(url: string, prepare: boolean): Driver {
  const connect = async (): Promise<Connected> => {
    const { default: { Pool } }: { default: typeof pg } = await import("pg");
    const pool = new Pool({ connectionString: url, max: 4 });
    const client = new PgClient(pool, {
      exclusive: false,
      prepare,
    });
    const begin = async () => {
      const connection = await pool.connect();
      await connection.query("begin");
      const end = async (word: "commit" | "rollback") => {
        await connection.query(word);
        connection.release();
      };
      const open = (options?: StoreOptions) =>
        openStore(connection, { ...options, exclusive: true, prepare });
      return {
        handle: connection,
        session: client.session(connection),
        open,
        commit: () => end("commit"),
        rollback: () => end("rollback"),
      };
    };
    return { client, begin, end: () => pool.end() };
  };
  return { name: "pg", dialect: postgresqlDialect, schema: "public", connect };
}
