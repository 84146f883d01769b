/**
 * The schema of each database as a script, for those who create tables by hand.
 *
 * @module
 */

import type { Feature, TableSchema } from "../core/sql/dialect.ts";
import { doubleQuoted, scriptText } from "../core/sql/statement.ts";
import { type Tables, tablesOf } from "../core/sql/tables.ts";
import { h2Schema } from "./h2.ts";
import { mariadbSchema } from "./mariadb.ts";
import { backQuoted, mysqlSchema } from "./mysql.ts";
import { postgresqlSchema } from "./postgresql.ts";
import { sqliteSchema } from "./sqlite.ts";
import { bracketed, sqlserverSchema } from "./sqlserver.ts";

interface Database {
  readonly title: string;
  readonly schema: (feature: Feature, tables: Tables) => readonly TableSchema[];
  readonly quote: (name: string) => string;
}

const features: readonly Feature[] = ["range", "slot"];

const databases: Readonly<Record<string, Database>> = {
  h2: { title: "H2 2.0 or later", schema: h2Schema, quote: doubleQuoted },
  mariadb: { title: "MariaDB 10.11 or later", schema: mariadbSchema, quote: backQuoted },
  mysql: { title: "MySQL 8.4 or later", schema: mysqlSchema, quote: backQuoted },
  postgresql: { title: "PostgreSQL 15 or later", schema: postgresqlSchema, quote: doubleQuoted },
  sqlite: { title: "SQLite 3.35 or later", schema: sqliteSchema, quote: doubleQuoted },
  sqlserver: { title: "SQL Server 2019 or later", schema: sqlserverSchema, quote: bracketed },
};

/** The databases that have a script. */
export const scriptNames: readonly string[] = Object.keys(databases);

/** The script of a database for the default names of the tables. */
export function schemaScript(name: string): string {
  const database = databases[name];
  if (database === undefined) throw new TypeError(`There is no schema for ${name}`);
  const { title, schema, quote } = database;
  const statements = features
    .flatMap((feature) => schema(feature, tablesOf()))
    .map((table) => `${scriptText(table.create, quote)};\n`);
  return `-- The tables of @fencepost/store on ${title}. Written by \`deno task schema\`.\n\n` +
    statements.join("\n");
}
