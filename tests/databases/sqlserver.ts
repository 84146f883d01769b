/**
 * SQL Server over `mssql`.
 *
 * @module
 */

// @ts-types="npm:@types/mssql@^12.3.0"
import type mssql from "mssql";
import type { StoreOptions } from "../../mod.ts";
import {
  MssqlClient,
  type MssqlPool,
  openStore,
  sqlserverDialect,
} from "../../dialects/sqlserver/mod.ts";
import { anything, type Connected, type Driver, type Drivers } from "./driver.ts";

/** One that runs already. */
export const sqlserver: Drivers = (url) => [driver(url)];

function driver(url: string): Driver {
  const connect = async (): Promise<Connected> => {
    const { default: { ConnectionPool } }: { default: typeof mssql } = await import("mssql");
    const pool = new ConnectionPool(configOf(url));
    pool.on("error", () => {});
    await pool.connect();
    const client = new MssqlClient(pool, { opened: false });
    const begin = async () => {
      const transaction = pool.transaction();
      await transaction.begin();
      const open = (options?: StoreOptions) => openStore(anything<MssqlPool>(transaction), options);
      return {
        handle: transaction,
        session: client.session(transaction),
        open,
        commit: () => transaction.commit(),
        rollback: () =>
          transaction.rollback().catch((error) => {
            // The server has done it already.
            if (error.code !== "EABORT") throw error;
          }),
      };
    };
    return { client, begin, end: () => pool.close() };
  };
  return { dialect: sqlserverDialect, schema: "dbo", connect };
}

function configOf(url: string): mssql.config {
  const { hostname, port, username, password, pathname, searchParams } = new URL(url);
  return {
    server: hostname,
    port: port === "" ? undefined : Number(port),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: decodeURIComponent(pathname.slice(1)) || undefined,
    pool: { max: 4 },
    options: {
      encrypt: searchParams.get("encrypt") !== "false",
      trustServerCertificate: searchParams.get("trustServerCertificate") === "true",
    },
  };
}
