/**
 * The tables on MySQL.
 *
 * Text that is compared has a collation that is binary and does not pad: with `utf8mb4_bin` the key
 * `'a '` would find the row of `'a'`. The engine is named, because a server may have another default.
 *
 * @module
 */

import type { Feature, TableSchema } from "../core/sql/dialect.ts";
import { sql, type Statement } from "../core/sql/statement.ts";
import type { Tables } from "../core/sql/tables.ts";

/** Quotes a name in a way that every sql_mode understands. */
export function backQuoted(name: string): string {
  return `\`${name}\``;
}

/** The tables of a feature on MySQL. */
export function mysqlSchema(feature: Feature, tables: Tables): readonly TableSchema[] {
  return innodbSchema(feature, tables, sql`utf8mb4_0900_bin`);
}

/** The tables of a feature on InnoDB, whose texts have a collation. */
export function innodbSchema(
  feature: Feature,
  tables: Tables,
  collation: Statement,
): readonly TableSchema[] {
  return { range: [rangeSchema(tables, collation)] }[feature];
}

function rangeSchema({ range }: Tables, collation: Statement): TableSchema {
  const key = sql`range_key varchar(255) character set utf8mb4 collate ${collation} not null
    primary key`;
  const next = sql`next_value bigint not null`;
  const sealed = sql`sealed boolean not null default false`;
  return {
    table: range,
    create: sql`create table if not exists ${range} (
  ${key},
  ${next},
  ${sealed}
) engine = InnoDB`,
    columns: new Map([
      ["range_key", sql`alter table ${range} add column ${key}`],
      ["next_value", sql`alter table ${range} add column ${next}`],
      ["sealed", sql`alter table ${range} add column ${sealed}`],
    ]),
  };
}
