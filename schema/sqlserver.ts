/**
 * The tables on SQL Server.
 *
 * Text is Unicode and has a binary collation: the server's default ignores case. No collation tells
 * texts apart that differ only in spaces at their end, so such texts are refused before they get here.
 * A primary key is clustered, and then its columns have 900 bytes at most.
 *
 * @module
 */

import type { Feature, TableSchema } from "../core/sql/dialect.ts";
import { sql } from "../core/sql/statement.ts";
import type { Tables } from "../core/sql/tables.ts";

/** Quotes a name as only SQL Server does, whatever the session's `quoted_identifier` is. */
export function bracketed(name: string): string {
  return `[${name}]`;
}

/** The tables of a feature on SQL Server. */
export function sqlserverSchema(feature: Feature, tables: Tables): readonly TableSchema[] {
  return { range: [rangeSchema(tables)] }[feature];
}

// A name that is checked holds nothing that could end the literal in which it stands here.
function rangeSchema({ range }: Tables): TableSchema {
  const key = sql`range_key nvarchar(255) collate Latin1_General_100_BIN2 not null primary key`;
  const next = sql`next_value bigint not null`;
  const sealed = sql`sealed bit not null default 0`;
  return {
    table: range,
    create: sql`if object_id(N'${range}') is null
create table ${range} (
  ${key},
  ${next},
  ${sealed}
)`,
    columns: new Map([
      [
        "range_key",
        sql`if col_length(N'${range}', N'range_key') is null alter table ${range} add ${key}`,
      ],
      [
        "next_value",
        sql`if col_length(N'${range}', N'next_value') is null alter table ${range} add ${next}`,
      ],
      [
        "sealed",
        sql`if col_length(N'${range}', N'sealed') is null alter table ${range} add ${sealed}`,
      ],
    ]),
  };
}
