import {
  type ColumnInfo,
  Dialect,
  type Feature,
  type Identifier,
  isHeldBy,
  maxValue,
  nextValueOf,
  type RangeRow,
  type ReserveRequest,
  type ServerInfo,
  type Session,
  type SlotHolder,
  sql,
  type Statement,
  type StoreErrorKind,
  type Tables,
  type TableSchema,
} from "@fencepost/store";

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

function tableSchema(table: Identifier, columns: Columns, key = sql``): TableSchema {
  const list = Object.values(columns).reduce((before, after) => sql`${before}, ${after}`);
  return {
    table,
    create: sql`create table if not exists ${table} (${list}${key})`,
    columns: new Map(
      Object.entries(columns).map(
        ([name, column]) => [name, sql`alter table ${table} add column ${column}`],
      ),
    ),
  };
}

/**
 * SQLite as a dialect of one's own: another clock and another reserve than the built-in one, and slots
 * by what the base class has for databases whose `update` returns nothing.
 */
export class MySqliteDialect extends Dialect {
  override readonly name = "my-sqlite";

  // unixepoch knows subsec since SQLite 3.42.
  override readonly nowMillis = sql`cast(round(unixepoch('now', 'subsec') * 1000) as integer)`;

  // SQLite cannot lock a row: such a read runs in a transaction.
  override readonly lockRow = undefined;

  override supports({ product, version }: ServerInfo): boolean {
    const [major = 0, minor = 0] = version.split(".").map(Number);
    return product === "SQLite" && major === 3 && minor >= 42;
  }

  override schema(feature: Feature, { range, slot, namespace }: Tables): readonly TableSchema[] {
    switch (feature) {
      case "range":
        return [tableSchema(range, rangeColumns)];
      case "slot":
        return [
          tableSchema(namespace, namespaceColumns),
          tableSchema(slot, slotColumns, sql`, primary key (namespace, slot)`),
        ];
    }
  }

  override async columns(session: Session, table: Identifier): Promise<readonly ColumnInfo[]> {
    const { name, schema = null } = table;
    const { rows } = await session.query(sql`
      select info.name, (
        select min(used.coll)
        from pragma_index_list(${name}, ${schema}) as list
        join pragma_index_xinfo(list.name, ${schema}) as used
        where list."unique" and used.name = info.name and used.coll <> 'BINARY'
      ) as collation
      from pragma_table_info(${name}, ${schema}) as info
    `);
    return rows.map((row) => ({
      name: row.text("name"),
      inexact: row.isNull("collation") ? undefined : `its collation is ${row.text("collation")}`,
    }));
  }

  override weaknesses(): Promise<readonly string[]> {
    return Promise.resolve([]);
  }

  override async reserve(session: Session, request: ReserveRequest): Promise<bigint | undefined> {
    const { table, key, size, initialOffset, nonce } = request;
    const result = await session.query(sql`
      insert into ${table} (range_key, next_value)
      select ${key}, coalesce(
        (select next_value from ${table} where range_key = ${key}), ${initialOffset}
      ) + ${size}
      where not exists (
        select 1 from ${table}
        where range_key = ${key} and (sealed or next_value > ${maxValue - size})
      )
      on conflict (range_key) do update set next_value = excluded.next_value
      returning next_value, ${nonce} as nonce
    `);
    return nextValueOf(result, request);
  }

  override insertRangeIfAbsent({ table, key, nextValue, sealed }: RangeRow): Statement {
    return sql`
      insert or ignore into ${table} (range_key, next_value, sealed)
      values (${key}, ${nextValue}, ${sealed})
    `;
  }

  // A write takes the lock that a read in a deferred transaction would not.
  override async assertSlot(session: Session, holder: SlotHolder): Promise<boolean> {
    const { rows } = await session.query(sql`
      update ${holder.table} set fence = fence where ${isHeldBy(holder)} returning slot
    `);
    return rows.length > 0;
  }

  override classify(error: unknown): StoreErrorKind {
    const code = error instanceof Error && "errcode" in error ? Number(error.errcode) : 0;
    switch (code & 0xff) {
      case 5:
      case 6:
        return "serialization";
      case 8:
        return "readOnly";
      case 13:
        return "diskFull";
      case 14:
        return "connection";
      case 19:
        return "duplicate";
    }
    const words = String(error);
    if (/no such (table|database)|unknown database/.test(words)) return "missingTable";
    return /duplicate column|already exists/.test(words) ? "duplicate" : "other";
  }
}
