/**
 * MySQL and MariaDB over `mysql2`.
 *
 * @module
 */

import type { Dialect, StoreOptions } from "../../mod.ts";
import { mariadbDialect, Mysql2Client, mysqlDialect, openStore } from "../../dialects/mysql/mod.ts";
import type { Connected, Driver, Drivers } from "./driver.ts";

/** MySQL. */
export const mysql: Drivers = (url) => [driver(url, mysqlDialect)];

/** MariaDB. */
export const mariadb: Drivers = (url) => [driver(url, mariadbDialect)];

function driver(url: string, dialect: Dialect): Driver {
  const uri = url.replace(/^mariadb:/, "mysql:");
  const connect = async (): Promise<Connected> => {
    const { createPool } = await import("mysql2/promise");
    const pool = createPool({ uri, connectionLimit: 4 });
    const client = new Mysql2Client(pool, { exclusive: false, prepare: true });
    const begin = async () => {
      const connection = await pool.getConnection();
      await connection.beginTransaction();
      const end = async (word: "commit" | "rollback") => {
        await connection[word]();
        connection.release();
      };
      const open = (options?: StoreOptions) =>
        openStore(connection, { ...options, exclusive: true });
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
  return { dialect, schema: new URL(url).pathname.slice(1), connect };
}
