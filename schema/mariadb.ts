/**
 * The tables on MariaDB, which are those on MySQL but for the name of the collation that does not pad.
 *
 * @module
 */

import type { Feature, TableSchema } from "../core/sql/dialect.ts";
import { sql } from "../core/sql/statement.ts";
import type { Tables } from "../core/sql/tables.ts";
import { innodbSchema } from "./mysql.ts";

/** The tables of a feature on MariaDB. */
export function mariadbSchema(feature: Feature, tables: Tables): readonly TableSchema[] {
  return innodbSchema(feature, tables, sql`utf8mb4_nopad_bin`);
}
