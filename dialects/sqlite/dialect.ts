/**
 * All SQL that only SQLite speaks.
 *
 * @module
 */

import type { StoreErrorKind } from "../../core/errors.ts";
import type { ServerInfo, Session } from "../../core/sql/client.ts";
import {
  type ColumnInfo,
  Dialect,
  type Feature,
  isHeldBy,
  maxValue,
  nextValueOf,
  type RangeRow,
  type ReserveRequest,
  type SlotHolder,
  type SlotUpdate,
  type TableSchema,
} from "../../core/sql/dialect.ts";
import { Identifier, sql, type Statement } from "../../core/sql/statement.ts";
import type { PresentTables, Tables } from "../../core/sql/tables.ts";
import { sqliteSchema } from "../../schema/sqlite.ts";

/** Asks for the version. */
export const selectVersion: Statement = sql`select sqlite_version() as version`;

/** Begins a transaction that holds the write lock from the start, so that it cannot lose it later. */
export const begin: Statement = sql`begin immediate`;

/** Makes a transaction's work permanent. */
export const commit: Statement = sql`commit`;

/** Takes a transaction's work back. */
export const rollback: Statement = sql`rollback`;

/** What a connection that the library opens is set to. */
export const connectionSettings: readonly Statement[] = [
  sql`pragma journal_mode = wal`,
  sql`pragma synchronous = full`,
];

/**
 * Deprecated settings with which a connection returns other columns than a statement names, and the
 * value that the store needs.
 */
export const neededSettings: readonly { name: string; read: Statement; needed: bigint }[] = [
  { name: "count_changes", read: sql`pragma count_changes`, needed: 0n },
  { name: "full_column_names", read: sql`pragma full_column_names`, needed: 0n },
  { name: "short_column_names", read: sql`pragma short_column_names`, needed: 1n },
];

/** The first version with `returning`. */
const lowestVersion = [3, 35] as const;

class SqliteDialect extends Dialect {
  override readonly name = "sqlite";

  override readonly nowMillis: Statement =
    sql`cast(round((julianday('now') - 2440587.5) * 86400000) as integer)`;

  override readonly lockRow: undefined = undefined;

  override supports(server: ServerInfo): boolean {
    const [major = 0, minor = 0] = server.version.split(".").map(Number);
    const [lowestMajor, lowestMinor] = lowestVersion;
    return server.product === "SQLite" &&
      (major > lowestMajor || (major === lowestMajor && minor >= lowestMinor));
  }

  override schema(feature: Feature, tables: Tables): readonly TableSchema[] {
    return sqliteSchema(feature, tables);
  }

  override async reserve(session: Session, request: ReserveRequest): Promise<bigint | undefined> {
    const { table, key, size, initialOffset, nonce } = request;
    const result = await session.query(sql`
      insert into ${table} as known (range_key, next_value)
      values (${key}, ${initialOffset + size})
      on conflict (range_key) do update
      set next_value = known.next_value + ${size}
      where not known.sealed and known.next_value <= ${maxValue - size}
      returning next_value, ${nonce} as nonce
    `);
    return nextValueOf(result, request);
  }

  override insertRangeIfAbsent({ table, key, nextValue, sealed }: RangeRow): Statement {
    return sql`
      insert into ${table} (range_key, next_value, sealed)
      values (${key}, ${nextValue}, ${sealed})
      on conflict (range_key) do nothing
    `;
  }

  override readonly returnsSlots = true;

  override updateSlot({ table, set, where, nonce }: SlotUpdate): Statement {
    const now = this.nowMillis;
    return sql`
      update ${table}
      set ${set(now)}
      where ${where(now)}
      returning slot, fence, expires_at, floor_ms, ceiling_ms, ${now} as now_ms, ${nonce} as nonce
    `;
  }

  // A write takes the lock that a read in a deferred transaction would not.
  override async assertSlot(session: Session, holder: SlotHolder): Promise<boolean> {
    const { rows } = await session.query(sql`
      update ${holder.table} set fence = fence where ${isHeldBy(holder)} returning slot
    `);
    return rows.length > 0;
  }

  override async columns(session: Session, table: Identifier): Promise<readonly ColumnInfo[]> {
    // Without a schema the pragma functions look a table up in all attached databases.
    const schema = table.schema ?? null;
    const { rows } = await session.query(sql`
      select
        info.name as name,
        (
          select used.coll
          from pragma_index_list(${table.name}, ${schema}) as list
          join pragma_index_xinfo(list.name, ${schema}) as used
          where list."unique" and used.name = info.name and used.coll <> 'BINARY'
          limit 1
        ) as collation
      from pragma_table_info(${table.name}, ${schema}) as info
    `);
    return rows.map((row) => {
      const inexact = row.isNull("collation")
        ? undefined
        : `its collation is ${row.text("collation")}`;
      return { name: row.text("name"), inexact };
    });
  }

  override async weaknesses(
    session: Session,
    { range, slot, namespace }: PresentTables,
  ): Promise<readonly string[]> {
    const schemas = [range, slot, namespace].flatMap((table) => table?.schema ?? "main");
    const found: string[] = [];
    for (const schema of new Set(schemas)) found.push(...await weaknessesOf(session, schema));
    return found;
  }

  override classify(error: unknown): StoreErrorKind {
    if (!(error instanceof Error)) return "other";
    const code = "errcode" in error ? Number(error.errcode) : 0;
    const kind = kinds.get(code) ?? kinds.get(code & 0xff);
    if (kind !== undefined) return kind;
    const words = error.message;
    // Deno gives this one no code.
    if (/^unable to open database/.test(words)) return "connection";
    // These have only the general code 1.
    if (/^no such (table|database)|unknown database/.test(words)) return "missingTable";
    if (/^duplicate column name|already exists/.test(words)) return "duplicate";
    return "other";
  }
}

/** What weakens a database of the connection. */
async function weaknessesOf(session: Session, schema: string): Promise<readonly string[]> {
  const { rows: [database] } = await session.query(
    sql`select coalesce(file, '') as file from pragma_database_list where name = ${schema}`,
  );
  const inMemory = database === undefined || database.text("file") === "";
  if (inMemory) return [];
  const setting = (name: string) => Identifier.parse(`${schema}.${name}`, "setting");
  const { rows: [journal] } = await session.query(sql`pragma ${setting("journal_mode")}`);
  const { rows: [sync] } = await session.query(sql`pragma ${setting("synchronous")}`);
  const lost = "can lose committed writes, whose values are then handed out again";
  const found: string[] = [];
  const mode = journal?.text("journal_mode");
  if (mode === "off" || mode === "memory") {
    found.push(`journal_mode is ${mode}: a crash ${lost}. Set it to wal.`);
  }
  // In WAL mode NORMAL does not wait for the disk at a commit; with a rollback journal it does.
  const level = sync?.number("synchronous") ?? 2;
  if (level === 0 || (level === 1 && mode === "wal")) {
    const word = level === 0 ? "off" : "normal";
    found.push(`synchronous is ${word}: a loss of power ${lost}. Set it to full.`);
  }
  return found;
}

/** By SQLite's result code, primary or extended. */
const kinds: ReadonlyMap<number, StoreErrorKind> = new Map([
  [3, "permission"],
  [5, "serialization"],
  [6, "serialization"],
  [8, "readOnly"],
  [10, "connection"],
  [13, "diskFull"],
  [14, "connection"],
  [23, "permission"],
  [1555, "duplicate"],
  [2067, "duplicate"],
]);

/** The dialect of SQLite, 3.35 or later. */
export const sqliteDialect: Dialect = new SqliteDialect();
