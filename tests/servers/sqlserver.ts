/**
 * SQL Server: only one that runs already, which `SQLSERVER_URL` names, for it cannot be installed
 * everywhere. It is used as it is, and never stopped: see running.ts.
 *
 * @module
 */
// @ts-types="npm:@types/mssql@^12.3.0"
import type mssql from "mssql";
import { configOf } from "../../dialects/sqlserver/url.ts";
import { runningServer } from "./running.ts";
import type { TestServer } from "./server.ts";

const name = "sqlserver";
const reason = "SQL Server is not started by the tests: set " +
  "SQLSERVER_URL=sqlserver://user:password@host:port/database";

/** The SQL Server that `SQLSERVER_URL` names, or none. */
export async function sqlserverServer(): Promise<TestServer> {
  return await runningServer({
    variable: "SQLSERVER_URL",
    family: name,
    ask: askVersion,
    nameOf: () => name,
  }) ?? {
    name,
    unavailable: () => Promise.resolve(reason),
    start: () => Promise.reject(new Error(reason)),
  };
}

async function askVersion(url: string): Promise<string> {
  const { default: { ConnectionPool } }: { default: typeof mssql } = await import("mssql");
  const timeouts = { connectionTimeout: 5_000, requestTimeout: 5_000 };
  const pool = new ConnectionPool({ ...configOf(url, {}), ...timeouts });
  try {
    await pool.connect();
    const { recordset: [row] } = await pool.query<{ version: string }>`
      select cast(serverproperty('ProductVersion') as nvarchar(128)) as version`;
    return row?.version ?? "unknown";
  } finally {
    await pool.close();
  }
}
