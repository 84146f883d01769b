/**
 * The tables on SQLite, whose text compares byte by byte unless a column says otherwise.
 *
 * @module
 */

import type { Feature, TableSchema } from "../core/sql/dialect.ts";
import { type Identifier, joined, sql, type Statement } from "../core/sql/statement.ts";
import type { Tables } from "../core/sql/tables.ts";

/** The tables of a feature on SQLite. */
export function sqliteSchema(feature: Feature, tables: Tables): readonly TableSchema[] {
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
  range_key: sql`range_key varchar(255) not null primary key`,
  next_value: sql`next_value bigint not null`,
  sealed: sql`sealed boolean not null default false`,
};

const namespaceColumns: Columns = {
  namespace: sql`namespace varchar(100) not null primary key`,
  slot_limit: sql`slot_limit integer not null`,
  tolerance_ms: sql`tolerance_ms bigint not null`,
};

const slotColumns: Columns = {
  namespace: sql`namespace varchar(100) not null`,
  slot: sql`slot integer not null`,
  owner_key: sql`owner_key varchar(255)`,
  incarnation: sql`incarnation char(36)`,
  last_owner_key: sql`last_owner_key varchar(255)`,
  fence: sql`fence bigint not null default 0`,
  expires_at: sql`expires_at bigint not null default 0`,
  floor_ms: sql`floor_ms bigint not null default 0`,
  ceiling_ms: sql`ceiling_ms bigint not null default 0`,
  next_floor_ms: sql`next_floor_ms bigint not null default 0`,
};

const slotKey: readonly Statement[] = [sql`primary key (namespace, slot)`];

function tableSchema(
  table: Identifier,
  columns: Columns,
  constraints: readonly Statement[] = [],
): TableSchema {
  const lines = [...Object.values(columns), ...constraints];
  return {
    table,
    create: sql`create table if not exists ${table} (
  ${joined(lines, (before, after) => sql`${before},\n  ${after}`)}
)`,
    columns: new Map(
      Object.entries(columns).map(([name, column]) => [
        name,
        sql`alter table ${table} add column ${column}`,
      ]),
    ),
  };
}
