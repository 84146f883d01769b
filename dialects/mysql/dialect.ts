/**
 * All SQL that only MySQL and its kin speak. What is different on MariaDB stands on its own page.
 *
 * @module
 */

import { ConfigurationError, StoreError, type StoreErrorKind } from "../../core/errors.ts";
import type { ServerInfo, Session } from "../../core/sql/client.ts";
import {
  bigintColumns,
  type ColumnInfo,
  Dialect,
  type Feature,
  longestTextIn,
  maxValue,
  type RangeRow,
  type ReserveRequest,
  type SlotUpdate,
  type TableSchema,
} from "../../core/sql/dialect.ts";
import type { QueryResult, Row } from "../../core/sql/row.ts";
import { type Identifier, sql, type Statement } from "../../core/sql/statement.ts";
import type { PresentTables, Tables } from "../../core/sql/tables.ts";
import { mysqlSchema } from "../../schema/mysql.ts";
import { socketFailures } from "../shared/sockets.ts";

/** Asks a server what it is, and for the settings of the session that no statement can undo. */
export const selectServer: Statement = sql`
  select
    version() as version,
    @@session.autocommit as autocommit,
    @@session.completion_type as completion_type,
    @@session.character_set_client as character_set_client,
    @@session.character_set_connection as character_set_connection
`;

/** Does nothing, but its answer tells whether a transaction is open, as a select's does not. */
export const probe: Statement = sql`do 0`;

/** Begins a transaction. It would commit one that is open without a word. */
export const begin: Statement = sql`start transaction`;

/** Makes a transaction's work permanent. */
export const commit: Statement = sql`commit`;

/** Takes a transaction's work back. */
export const rollback: Statement = sql`rollback`;

/** How a bound integer stands in a text: on MariaDB what came as a string would count as a double. */
export const boundInteger = "cast(? as signed)";

/** Writes a text as a literal that means the same in every sql_mode and character set. */
export function textLiteral(text: string): string {
  let digits = "";
  for (const byte of utf8.encode(text)) digits += byte.toString(16).padStart(2, "0");
  return `_utf8mb4 X'${digits}'`;
}

const utf8 = new TextEncoder();

/** A release series: the major and the minor version. */
type Series = readonly [major: number, minor: number];

/** The dialect of MySQL, which MariaDB's extends. */
export class MysqlDialect extends Dialect {
  override readonly name: string = "mysql";
  /** The product that speaks it. */
  protected readonly product: string = "MySQL";
  /** The first series that has all that is used here. */
  protected readonly lowest: Series = [8, 0];
  /** The first series on which it is promised to work. */
  protected readonly promised: Series = [8, 4];

  override readonly nowMillis: Statement =
    sql`timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 1000`;

  override supports(server: ServerInfo): boolean {
    return server.product === this.product && !isBelow(server.version, this.lowest);
  }

  override schema(feature: Feature, tables: Tables): readonly TableSchema[] {
    return mysqlSchema(feature, tables);
  }

  /**
   * The next value comes back in the key that the statement generated. What stands in `values` is
   * evaluated also when the row exists, so every branch of the update has to set the key: a row that
   * stays as it is generates 0. `& 0` leaves nothing of the key in the row, and the cast keeps the sum
   * signed, as the column is.
   */
  override reserve(session: Session, request: ReserveRequest): Promise<bigint | undefined> {
    const { table, key, size, initialOffset } = request;
    const first = initialOffset + size;
    const tag = tagOf(request);
    return session.query(sql`
      insert into ${table} (range_key, next_value)
      values (${key}, ${first} + cast(last_insert_id(${signed(tagged(first, tag))}) & 0 as signed))
      on duplicate key update next_value = case
        when sealed = 0 and next_value <= ${maxValue - size}
        then next_value + ${size} + cast(
          last_insert_id(
            if(
              next_value + ${size} < ${tagRoom},
              cast(next_value + ${size} | ${signed(tag)} as signed),
              next_value + ${size}
            )
          ) & 0 as signed
        )
        else next_value + cast(last_insert_id(0) as signed)
      end
    `).then((result) => readNext(result, tag));
  }

  /** Fails as a duplicate if the row exists: `ignore` would also ignore texts that are cut. */
  override insertRangeIfAbsent({ table, key, nextValue, sealed }: RangeRow): Statement {
    return sql`
      insert into ${table} (range_key, next_value, sealed)
      values (${key}, ${nextValue}, ${sealed})
    `;
  }

  /** The clock, which stands still within a statement, comes back as the generated key. */
  override updateSlot({ table, set, where }: SlotUpdate): Statement {
    const now = sql`cast(last_insert_id(${this.nowMillis}) as signed)`;
    return sql`update ${table} set ${set(now)} where ${where(this.nowMillis)}`;
  }

  /** MariaDB does not know the sign in the sql_mode ORACLE. */
  override remainder(dividend: Statement, divisor: Statement): Statement {
    return sql`mod(${dividend}, ${divisor})`;
  }

  /** `show` finds the table that a statement would use, whatever the case of names means here. */
  override async columns(session: Session, table: Identifier): Promise<readonly ColumnInfo[]> {
    try {
      const { rows } = await session.query(sql`show full columns from ${table}`);
      return rows.map((row) => ({
        name: row.text("Field").toLowerCase(),
        inexact: inexactnessOf(row),
      }));
    } catch (error) {
      const kind = error instanceof StoreError ? error.kind : this.classify(error);
      if (kind === "missingTable") return [];
      throw error;
    }
  }

  override async weaknesses(
    session: Session,
    { range, slot, namespace }: PresentTables,
  ): Promise<readonly string[]> {
    await refuseOtherKeys(session, range);
    await refuseGenerated(session, range);
    if (slot) await refuseWithoutKey(session, slot, ["namespace", "slot"]);
    if (namespace) await refuseWithoutKey(session, namespace, ["namespace"]);
    const { product, promised } = this;
    const found = [...await settingWeaknesses(session, { product, promised })];
    for (const table of [range, slot, namespace]) {
      if (table === undefined) continue;
      await refuseOtherTypes(session, table);
      found.push(...await tableWeaknesses(session, table, { readsKeys: table === range }));
    }
    return found;
  }

  override classify(error: unknown): StoreErrorKind {
    return kindOf(error);
  }
}

/** Whether a version is of an earlier series. */
function isBelow(version: string, [major, minor]: Series): boolean {
  const [isMajor = 0, isMinor = 0] = version.split(".", 2).map((part) => Number.parseInt(part));
  return isMajor < major || (isMajor === major && isMinor < minor);
}

/*
 * What a reserve has the server generate, for proxies give one statement the key of another: the next
 * value, and with it 15 bits of the request's nonce. Bit 63 says that they are there; from 2^48 on they
 * have no room, and the value stands alone.
 *
 *     bit   63   62 … 48   47 … 0
 *            1     nonce    value
 */

/** The first value that leaves no room for a tag. */
const tagRoom = 1n << 48n;

function tagOf({ nonce }: ReserveRequest): bigint {
  return (1n << 63n) | ((nonce & 0x7fffn) << 48n);
}

function tagged(value: bigint, tag: bigint): bigint {
  return value < tagRoom ? value | tag : value;
}

/** The same 64 bits as an integer that can be bound. */
function signed(bits: bigint): bigint {
  return BigInt.asIntN(64, bits);
}

/**
 * The value that stands in a generated key under a tag, or alone where it is too large for one. 0 is
 * no value: it stands for a row that stayed as it was, or for a key that a proxy lost.
 */
function readNext({ generatedKey = 0n }: QueryResult, tag: bigint): bigint | undefined {
  const bits = BigInt.asUintN(64, generatedKey);
  const value = bits >> 63n === 0n ? bits : bits % tagRoom;
  return value > 0n && tagged(value, tag) === bits ? value : undefined;
}

/** The collations that tell all texts of Unicode apart. */
const exactCollations: ReadonlySet<string> = new Set(["utf8mb4_0900_bin", "utf8mb4_nopad_bin"]);

/** How many bytes of UTF-8 a UTF-16 unit can take. */
const bytesPerUnit = 3;

/** Why a column may take different texts for equal, or cut or change them. */
function inexactnessOf(row: Row): string | undefined {
  const type = row.text("Type").toLowerCase();
  const [, name = type, length = ""] = /^(\w+)(?:\((\d+)\))?/.exec(type) ?? [];
  if (name === "char") return "its type char ignores spaces at the end";
  if (name === "binary") return "its type binary adds zeros at the end";
  const unit = name === "varbinary" ? "bytes" : "characters";
  const longest = longestTextIn(row.text("Field").toLowerCase());
  const needed = name === "varbinary" ? longest * bytesPerUnit : longest;
  if (name.startsWith("var") && Number(length) < needed) {
    return `it holds ${length} ${unit}, and longer texts are cut unless the sql_mode is strict`;
  }
  if (row.isNull("Collation")) return undefined;
  const collation = row.text("Collation");
  if (exactCollations.has(collation)) return undefined;
  if (!collation.startsWith("utf8mb4_")) {
    return `its character set, that of ${collation}, does not hold every text`;
  }
  return collation.endsWith("_bin")
    ? `its collation ${collation} ignores spaces at the end`
    : `its collation is ${collation}`;
}

/** The unique keys of a table by their names, each with its columns; a part of one has no name. */
async function uniqueKeys(
  session: Session,
  table: Identifier,
): Promise<ReadonlyMap<string, readonly string[]>> {
  const { rows } = await session.query(sql`show index from ${table}`);
  const unique = new Map<string, string[]>();
  for (const row of rows) {
    if (row.boolean("Non_unique")) continue;
    const name = row.text("Key_name");
    // A part of a column is not the column, and an expression has no name.
    const column = row.isNull("Sub_part") && !row.isNull("Column_name")
      ? row.text("Column_name").toLowerCase()
      : "";
    unique.set(name, [...unique.get(name) ?? [], column]);
  }
  return unique;
}

/**
 * `on duplicate key update` does not say which key it means. Without a unique one over the whole
 * `range_key` each reserve would add a row and start anew; with another one it would change the row of
 * another key.
 */
async function refuseOtherKeys(session: Session, table: Identifier): Promise<void> {
  const keys = [...await uniqueKeys(session, table)];
  const other = keys.find(([, columns]) => !columns.includes("range_key"));
  if (other === undefined && keys.some(([, columns]) => columns.length === 1)) return;
  throw new ConfigurationError(
    `Cannot open store: table ${table} must have a unique key over the whole column range_key, and ` +
      `no other, else it would hand out the same values again: received ` +
      (other === undefined ? "none" : `the unique key ${other[0]}`),
  );
}

/** Without its key a table would take two rows for one, and each could have a holder. */
async function refuseWithoutKey(
  session: Session,
  table: Identifier,
  needed: readonly string[],
): Promise<void> {
  const keys = [...(await uniqueKeys(session, table)).values()];
  const found = keys.some((columns) => columns.every((column) => needed.includes(column)));
  if (found) return;
  throw new ConfigurationError(
    `Cannot open store: table ${table} must have a unique key over the columns ` +
      `${needed.join(" and ")}, else a slot could have two rows: received none`,
  );
}

async function settingWeaknesses(
  session: Session,
  { product, promised }: { product: string; promised: Series },
): Promise<readonly string[]> {
  // Unlike `select @@…` it does not fail for what a server has not got, and needs no privilege.
  const { rows } = await session.query(sql`
    show global variables where variable_name in (
      'version', 'innodb_flush_log_at_trx_commit', 'innodb_doublewrite', 'log_bin', 'sync_binlog'
    )
  `);
  const settings = new Map(rows.map((row) => [row.text("Variable_name"), row.text("Value")]));
  const isNot = (name: string, value: string) => (settings.get(name) ?? value) !== value;
  const found: string[] = [];
  if (isNot("innodb_flush_log_at_trx_commit", "1")) {
    found.push(
      `innodb_flush_log_at_trx_commit is ${settings.get("innodb_flush_log_at_trx_commit")}: a ` +
        `crash can lose committed writes, whose values are then handed out again. Set it to 1.`,
    );
  }
  if (["OFF", "0"].includes(settings.get("innodb_doublewrite") ?? "")) {
    found.push(
      `innodb_doublewrite is off: a crash can damage the tables, and a backup that is restored ` +
        `hands values out again. Turn it on.`,
    );
  }
  if (["ON", "1"].includes(settings.get("log_bin") ?? "") && isNot("sync_binlog", "1")) {
    found.push(
      `sync_binlog is ${settings.get("sync_binlog")}: after a crash the binary log can lack ` +
        `committed writes, whose values a replica that takes over hands out again. Set it to 1.`,
    );
  }
  const version = settings.get("version") ?? "";
  if (version !== "" && isBelow(version, promised)) {
    found.push(
      `${product} ${version} is older than those that are tested. ` +
        `Use ${promised.join(".")} or later.`,
    );
  }
  return found;
}

/** Without transactions nothing keeps a row between the update and the read of the plan transaction. */
function refuseUnsafe(table: Identifier, row: Row | undefined): void {
  if (row === undefined) {
    throw new ConfigurationError(
      `Cannot open store: table ${table} is temporary, and every connection has one of its own, make ` +
        `it a permanent table`,
    );
  }
  if (row.text("transactions") === "YES") return;
  throw new ConfigurationError(
    `Cannot open store: table ${table} must have an engine with transactions, such as InnoDB: ` +
      `received ${row.text("engine")}`,
  );
}

/** A number that the table generates would be reported in the place of the key's next value. */
async function refuseGenerated(session: Session, table: Identifier): Promise<void> {
  const { rows } = await session.query(sql`show columns from ${table}`);
  for (const row of rows) {
    if (!/auto_increment/i.test(row.text("Extra"))) continue;
    throw new ConfigurationError(
      `Cannot open store: table ${table} must have no column that is auto_increment, whose values ` +
        `would be taken for a key's: received ${row.text("Field")}`,
    );
  }
}

/** A value that is too large for its column is cut unless the sql_mode is strict, and then comes again. */
async function refuseOtherTypes(session: Session, table: Identifier): Promise<void> {
  const { rows } = await session.query(sql`show columns from ${table}`);
  for (const row of rows) {
    const [name, type] = [row.text("Field"), row.text("Type")];
    if (!bigintColumns.has(name.toLowerCase()) || /^bigint\b/i.test(type)) continue;
    throw new ConfigurationError(
      `Cannot open store: column ${name} of table ${table} must be a bigint: received ${type}`,
    );
  }
}

async function tableWeaknesses(
  session: Session,
  table: Identifier,
  { readsKeys }: { readsKeys: boolean },
): Promise<string[]> {
  const schema = table.schema === undefined ? sql`database()` : sql`${table.schema}`;
  // Names may be compared there without regard to case where tables differ only in it.
  const { rows: tables } = await session.query(sql`
    select
      known.table_name as name,
      coalesce(known.engine, 'none') as engine,
      coalesce(engines.transactions, 'NO') as transactions
    from information_schema.tables as known
    left join information_schema.engines as engines on engines.engine = known.engine
    where known.table_schema = ${schema} and known.table_name = ${table.name}
  `);
  const { rows: triggers } = await session.query(sql`
    select event_object_table as name, trigger_name as trigger_name
    from information_schema.triggers
    where event_object_schema = ${schema} and event_object_table = ${table.name}
      and event_manipulation in ('INSERT', 'UPDATE')
  `);
  const isIt = (row: Row) => row.text("name") === table.name;
  refuseUnsafe(table, tables.find(isIt) ?? tables[0]);
  const trigger = tables.some(isIt) ? triggers.find(isIt) : triggers[0];
  const found: string[] = [];
  if (trigger !== undefined && readsKeys) {
    found.push(
      `Table ${table} has the trigger ${
        trigger.text("trigger_name")
      }: the server then reports no ` +
        `generated key, so the plan statement hands nothing out. Drop it, or use fetchPlan ` +
        `"transaction".`,
    );
  }
  return found;
}

function kindOf(error: unknown): StoreErrorKind {
  if (!(error instanceof Error)) return "other";
  const errno = "errno" in error ? Number(error.errno) : 0;
  // The operating system's are negative.
  if (errno > 0) {
    return isOutOfSpace(errno, error.message) ? "diskFull" : kinds.get(errno) ?? "other";
  }
  const code = "code" in error ? String(error.code) : "";
  if (driverCodes.has(code)) return "connection";
  return code === "" || code === "undefined" ? kindOfWords(error.message) : "other";
}

/** The driver has no code for what its pool and its closed connections say. */
function kindOfWords(words: string): StoreErrorKind {
  return /closed state|^Pool is closed|^Queue limit|^No connections|^Connection lost/.test(words)
    ? "connection"
    : "other";
}

/** Errors of a file, whose cause is only in the words: 28 is that of a full disk. */
function isOutOfSpace(errno: number, words: string): boolean {
  return [3, 20, 1026, 1030].includes(errno) && /err(no|or|code):? ?28\b/i.test(words);
}

/** The driver's and the platform's codes of a connection that failed. */
const driverCodes: ReadonlySet<string> = new Set([
  ...socketFailures,
  "ERR_STREAM_DESTROYED",
  "ERR_STREAM_WRITE_AFTER_END",
  "HANDSHAKE_NO_SSL_SUPPORT",
  "HANDSHAKE_SSL_ERROR",
  "HANDSHAKE_UNKNOWN_ERROR",
  "PROTOCOL_CONNECTION_LOST",
  "PROTOCOL_ERROR",
  "PROTOCOL_SEQUENCE_TIMEOUT",
  "PROTOCOL_UNEXPECTED_PACKET",
]);

const numbers: Readonly<Partial<Record<StoreErrorKind, readonly number[]>>> = {
  connection: [
    ...[1040, 1041, 1042, 1043, 1047, 1053, 1077, 1079, 1080, 1129, 1135, 1152, 1153, 1154, 1156],
    ...[1157, 1158, 1159, 1160, 1161, 1184, 1203, 1226, 1927, 3032, 3168, 3169, 4031],
    // Of clients, as proxies hand them on, and ProxySQL's own.
    ...[2002, 2003, 2006, 2013, 2014, 2027, 2055, 9001],
  ],
  deadlock: [1213, 1614],
  diskFull: [1021, 1114],
  duplicate: [1022, 1050, 1060, 1061, 1062, 1068, 1586],
  missingTable: [1046, 1049, 1146],
  permission: [
    ...[1044, 1045, 1130, 1142, 1143, 1227, 1251, 1275, 1370, 1410, 1698, 1820, 1862, 3118, 3159],
    ...[3955, 4151],
  ],
  readOnly: [1036, 1290, 1792, 1836, 1874, 3100, 3989],
  // Lock waits, and what the server asks to repeat: the statement, or the whole transaction.
  serialization: [1020, 1205, 1412, 1615, 1689, 3101, 3572],
};

/** By the server's error number. */
const kinds: ReadonlyMap<number, StoreErrorKind> = new Map(
  Object.entries(numbers).flatMap(([kind, list]) =>
    list.map((number) => [number, kind as StoreErrorKind] as const)
  ),
);

/** The dialect of MySQL, 8.4 or later; 8.0 is not refused. */
export const mysqlDialect: Dialect = new MysqlDialect();
