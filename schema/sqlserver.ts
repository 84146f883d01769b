/**
 * The tables on SQL Server.
 *
 * Text is Unicode and has a binary collation: the server's default ignores case. No collation tells
 * texts apart that differ only in spaces at their end, so such texts are refused before they get here.
 * A primary key is clustered, and then its columns have 900 bytes at most. A column says whether it can
 * be null, for without a word that is up to the session.
 *
 * @module
 */

import type { Feature, TableSchema } from "../core/sql/dialect.ts";
import { type Identifier, joined, literal, sql, type Statement } from "../core/sql/statement.ts";
import type { Tables } from "../core/sql/tables.ts";

/** Quotes a name as only SQL Server does, whatever the session's `quoted_identifier` is. */
export function bracketed(name: string): string {
  return `[${name}]`;
}

/** The tables of a feature on SQL Server. */
export function sqlserverSchema(feature: Feature, tables: Tables): readonly TableSchema[] {
  const { range, slot, namespace } = tables;
  switch (feature) {
    case "range":
      return [tableSchema(range, rangeColumns)];
    case "slot":
      return [
        tableSchema(namespace, namespaceColumns),
        { ...tableSchema(slot, slotColumns, slotKey), tokens: new Set(["incarnation"]) },
      ];
  }
}

/** Each column by its name. */
type Columns = Readonly<Record<string, Statement>>;

const rangeColumns: Columns = {
  range_key: sql`range_key nvarchar(255) collate Latin1_General_100_BIN2 not null primary key`,
  next_value: sql`next_value bigint not null`,
  sealed: sql`sealed bit not null default 0`,
};

const namespaceColumns: Columns = {
  namespace: sql`namespace nvarchar(100) collate Latin1_General_100_BIN2 not null primary key`,
  slot_limit: sql`slot_limit integer not null`,
  tolerance_ms: sql`tolerance_ms bigint not null`,
};

const slotColumns: Columns = {
  namespace: sql`namespace nvarchar(100) collate Latin1_General_100_BIN2 not null`,
  slot: sql`slot integer not null`,
  owner_key: sql`owner_key nvarchar(255) collate Latin1_General_100_BIN2 null`,
  incarnation: sql`incarnation nchar(36) collate Latin1_General_100_BIN2 null`,
  last_owner_key: sql`last_owner_key nvarchar(255) collate Latin1_General_100_BIN2 null`,
  fence: sql`fence bigint not null default 0`,
  expires_at: sql`expires_at bigint not null default 0`,
  floor_ms: sql`floor_ms bigint not null default 0`,
  ceiling_ms: sql`ceiling_ms bigint not null default 0`,
  next_floor_ms: sql`next_floor_ms bigint not null default 0`,
};

const slotKey: readonly Statement[] = [sql`primary key (namespace, slot)`];

// A name that is checked holds nothing that could end the literal in which it stands here.
function tableSchema(
  table: Identifier,
  columns: Columns,
  constraints: readonly Statement[] = [],
): TableSchema {
  const lines = joined(
    [...Object.values(columns), ...constraints],
    (before, after) => sql`${before},\n  ${after}`,
  );
  return {
    table,
    create: sql`if object_id(N'${table}') is null
create table ${table} (
  ${lines}
)`,
    columns: new Map(
      Object.entries(columns).map(([name, column]) => [
        name,
        sql`if col_length(N'${table}', N'${
          literal(name)
        }') is null alter table ${table} add ${column}`,
      ]),
    ),
  };
}
