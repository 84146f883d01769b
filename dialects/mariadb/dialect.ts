/**
 * The SQL that MariaDB speaks differently from MySQL.
 *
 * @module
 */

import type { Dialect, Feature, RowLock, TableSchema } from "../../core/sql/dialect.ts";
import { sql } from "../../core/sql/statement.ts";
import type { Tables } from "../../core/sql/tables.ts";
import { mariadbSchema } from "../../schema/mariadb.ts";
import { MysqlDialect } from "../mysql/dialect.ts";

class MariadbDialect extends MysqlDialect {
  override readonly name = "mariadb";
  protected override readonly product = "MariaDB";
  protected override readonly lowest = [10, 6] as const;
  protected override readonly promised = [10, 11] as const;

  // It has no `for share`.
  override readonly shareRow: RowLock = { clause: sql` lock in share mode` };

  override schema(feature: Feature, tables: Tables): readonly TableSchema[] {
    return mariadbSchema(feature, tables);
  }
}

/** The dialect of MariaDB, 10.11 or later; 10.6 is not refused. */
export const mariadbDialect: Dialect = new MariadbDialect();
