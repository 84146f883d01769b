/**
 * The tables on MySQL.
 *
 * Text that is compared has a collation that is binary and does not pad: with `utf8mb4_bin` the key
 * `'a '` would find the row of `'a'`. The engine is named, because a server may have another default.
 *
 * @module
 */

import type { Feature, TableSchema } from "../core/sql/dialect.ts";
import { type Identifier, joined, sql, type Statement } from "../core/sql/statement.ts";
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
  const { range, slot, namespace } = tables;
  const text = sql`character set utf8mb4 collate ${collation}`;
  switch (feature) {
    case "range":
      return [tableSchema(range, rangeColumns(text))];
    case "slot":
      return [
        tableSchema(namespace, namespaceColumns(text)),
        { ...tableSchema(slot, slotColumns(text), slotKey), tokens: new Set(["incarnation"]) },
      ];
  }
}

/** Each column by its name. */
type Columns = Readonly<Record<string, Statement>>;

function rangeColumns(text: Statement): Columns {
  return {
    range_key: sql`range_key varchar(255) ${text} not null
    primary key`,
    next_value: sql`next_value bigint not null`,
    sealed: sql`sealed boolean not null default false`,
  };
}

function namespaceColumns(text: Statement): Columns {
  return {
    namespace: sql`namespace varchar(100) ${text} not null
    primary key`,
    slot_limit: sql`slot_limit integer not null`,
    tolerance_ms: sql`tolerance_ms bigint not null`,
  };
}

function slotColumns(text: Statement): Columns {
  return {
    namespace: sql`namespace varchar(100) ${text} not null`,
    slot: sql`slot integer not null`,
    owner_key: sql`owner_key varchar(255) ${text}`,
    incarnation: sql`incarnation char(36) ${text}`,
    last_owner_key: sql`last_owner_key varchar(255) ${text}`,
    fence: sql`fence bigint not null default 0`,
    expires_at: sql`expires_at bigint not null default 0`,
    floor_ms: sql`floor_ms bigint not null default 0`,
    ceiling_ms: sql`ceiling_ms bigint not null default 0`,
    next_floor_ms: sql`next_floor_ms bigint not null default 0`,
  };
}

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
) engine = InnoDB`,
    columns: new Map(
      Object.entries(columns).map((
        [name, column],
      ) => [name, sql`alter table ${table} add column ${column}`]),
    ),
  };
}
