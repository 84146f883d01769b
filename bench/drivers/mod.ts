/**
 * The drivers that a database can be measured with.
 *
 * @module
 */

import type { BenchDriver } from "./driver.ts";

export type { BenchConnection, BenchDriver, Take } from "./driver.ts";

/** Loads the drivers of a family of databases; the first is the one that a URL opens. */
export async function driversOf(family: string): Promise<readonly BenchDriver[]> {
  switch (family) {
    case "postgresql":
      return [(await import("./postgres.ts")).postgresJs, (await import("./pg.ts")).nodePostgres];
    case "pglite":
      return [(await import("./pglite.ts")).pglite];
    case "mysql":
    case "mariadb":
      return [(await import("./mysql2.ts")).mysql2];
    case "h2":
      return [(await import("./h2.ts")).h2PostgresJs];
    case "sqlserver":
      return [(await import("./mssql.ts")).mssqlDriver];
    case "sqlite":
      return [(await import("./node_sqlite.ts")).nodeSqlite];
  }
  throw new Error(`Cannot measure on ${family}: no driver is known`);
}
