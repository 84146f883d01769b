import {
  type ColumnInfo,
  Dialect,
  type Feature,
  type Identifier,
  maxValue,
  nextValueOf,
  type RangeRow,
  type ReserveRequest,
  type ServerInfo,
  type Session,
  sql,
  type Statement,
  type StoreErrorKind,
  type Tables,
  type TableSchema,
} from "@fencepost/store";

/** SQLite as a dialect of one's own: another clock and another reserve than the built-in one. */
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

  override schema(feature: Feature, { range }: Tables): readonly TableSchema[] {
    const columns = new Map([
      ["range_key", sql`range_key varchar(255) not null primary key`],
      ["next_value", sql`next_value bigint not null`],
      ["sealed", sql`sealed boolean not null default false`],
    ]);
    const [key = sql``, next = sql``, sealed = sql``] = columns.values();
    const table: TableSchema = {
      table: range,
      create: sql`create table if not exists ${range} (${key}, ${next}, ${sealed})`,
      columns: new Map(
        [...columns].map((
          [name, column],
        ) => [name, sql`alter table ${range} add column ${column}`]),
      ),
    };
    return { range: [table] }[feature];
  }

  override async columns(session: Session, table: Identifier): Promise<readonly ColumnInfo[]> {
    const { rows } = await session.query(
      sql`select name from pragma_table_info(${table.name}, ${table.schema ?? null})`,
    );
    return rows.map((row) => ({ name: row.text("name") }));
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
