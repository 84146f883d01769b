/**
 * The tables on H2, whose text compares exactly unless the database or a column says otherwise.
 *
 * @module
 */

import type { Feature, TableSchema } from "../core/sql/dialect.ts";
import { sql } from "../core/sql/statement.ts";
import type { Tables } from "../core/sql/tables.ts";

/** The tables of a feature on H2. */
export function h2Schema(feature: Feature, tables: Tables): readonly TableSchema[] {
  return { range: [rangeSchema(tables)] }[feature];
}

function rangeSchema({ range }: Tables): TableSchema {
  const key = sql`range_key varchar(255) not null primary key`;
  const next = sql`next_value bigint not null`;
  const sealed = sql`sealed boolean not null default false`;
  return {
    table: range,
    create: sql`create table if not exists ${range} (
  ${key},
  ${next},
  ${sealed}
)`,
    columns: new Map([
      ["range_key", sql`alter table ${range} add column if not exists ${key}`],
      ["next_value", sql`alter table ${range} add column if not exists ${next}`],
      ["sealed", sql`alter table ${range} add column if not exists ${sealed}`],
    ]),
  };
}
