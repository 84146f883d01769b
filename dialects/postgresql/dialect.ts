/**
 * All SQL that only PostgreSQL speaks.
 *
 * @module
 */

import { ConfigurationError, type StoreErrorKind } from "../../core/errors.ts";
import type { ServerInfo, Session } from "../../core/sql/client.ts";
import {
  bigintColumns,
  type ColumnInfo,
  Dialect,
  type Feature,
  maxValue,
  nextValueOf,
  type RangeRow,
  type ReserveRequest,
  type SlotTake,
  type SlotUpdate,
  type TableSchema,
} from "../../core/sql/dialect.ts";
import { doubleQuoted, type Identifier, sql, type Statement } from "../../core/sql/statement.ts";
import type { PresentTables, Tables } from "../../core/sql/tables.ts";
import { postgresqlSchema } from "../../schema/postgresql.ts";
import { socketFailures } from "../shared/sockets.ts";

/** Asks a server of the PostgreSQL protocol what it is. */
export const selectVersion: Statement = sql`select version() as version`;

/** Does nothing, but has to wait for its turn, and binds a value. */
export const selectNothing: Statement = sql`select ${""}::text as nothing`;

/** The isolation of the transactions that the library opens: reads see what others have committed. */
export const isolation = "isolation level read committed";

/** Begins a transaction. */
export const begin: Statement = sql`begin isolation level read committed`;

/** Begins a transaction where the application's may be open already, whose isolation is its own. */
export const beginPlainly: Statement = sql`begin`;

/** Gives a transaction that was begun plainly its isolation. */
export const setIsolation: Statement = sql`set transaction isolation level read committed`;

/** The SQLSTATE of the warning that a transaction was open already. */
export const alreadyBegun = "25001";

/** The SQLSTATE of the warning that there was no transaction to end. */
export const nothingBegun = "25P01";

/** A commit that answered ROLLBACK, without an error: the transaction had been aborted before. */
export class RolledBackError extends Error {
  /** The SQLSTATE of a transaction that was rolled back. */
  readonly code = "40000";

  /** Makes the error. */
  constructor() {
    super("The server answered the commit with a rollback");
  }
}

/** Makes a transaction's work permanent. */
export const commit: Statement = sql`commit`;

/** Makes a transaction's work permanent, and begins an empty one in the same turn. */
export const commitAndChain: Statement = sql`commit and chain`;

/** Takes a transaction's work back. */
export const rollback: Statement = sql`rollback`;

/** The lowest version that the tests run on; lower ones down to 12 are not refused. */
const testedMajor = 15;
const lowestMajor = 12;

class PostgresqlDialect extends Dialect {
  override readonly name = "postgresql";

  override readonly nowMillis: Statement =
    sql`floor(extract(epoch from clock_timestamp()) * 1000)::bigint`;

  override supports(server: ServerInfo): boolean {
    return server.product === "PostgreSQL" && Number.parseInt(server.version) >= lowestMajor;
  }

  override schema(feature: Feature, tables: Tables): readonly TableSchema[] {
    return postgresqlSchema(feature, tables);
  }

  override reserve(session: Session, request: ReserveRequest): Promise<bigint | undefined> {
    const { table, key, size, initialOffset, nonce } = request;
    // Inside a transaction that has written something nothing is inserted: only the application's can
    // be one, and what it reserved a rollback would hand out again.
    return session.query(sql`
      insert into ${table} as known (range_key, next_value)
      select ${key}::varchar, ${initialOffset + size}::bigint
      where txid_current_if_assigned() is null
      on conflict (range_key) do update
      set next_value = known.next_value + ${size}
      where not known.sealed and known.next_value <= ${maxValue - size}
      returning next_value, ${nonce}::bigint as nonce
    `).then((result) => nextValueOf(result, request));
  }

  override insertRangeIfAbsent({ table, key, nextValue, sealed }: RangeRow): Statement {
    return sql`
      insert into ${table} (range_key, next_value, sealed)
      values (${key}, ${nextValue}, ${sealed})
      on conflict (range_key) do nothing
    `;
  }

  override readonly returnsSlots = true;

  // The clock is read once, for it moves within a statement. Inside a transaction that has written
  // something there is none, and nothing is changed: as for a reserve. It is materialized, so that a
  // row that somebody else has just changed is looked at again with the same clock.
  override updateSlot({ table, set, where, nonce }: SlotUpdate): Statement {
    const now = sql`clock.now_ms`;
    return sql`
      with clock as materialized (
        select ${this.nowMillis} as now_ms where txid_current_if_assigned() is null
      )
      update ${table}
      set ${set(now)}
      from clock
      where ${where(now)}
      returning slot, fence, expires_at, floor_ms, ceiling_ms, now_ms, ${nonce}::bigint as nonce
    `;
  }

  // Rows that others are just picking are skipped, so that a herd does not queue for the same one. What
  // the update compares is the row as it was when it was locked.
  override takeSlot(take: SlotTake): Statement {
    const { table, candidates, order, settled, set, where, nonce } = take;
    const now = sql`clock.now_ms`;
    return sql`
      with clock as materialized (
        select ${this.nowMillis} as now_ms
        where txid_current_if_assigned() is null and ${settled}
      ), picked as materialized (
        select slot as picked_slot, fence as picked_fence, next_floor_ms as picked_floor
        from ${table} as known cross join clock
        where ${candidates(now)}
        order by ${order}
        limit 1
        for update of known skip locked
      )
      update ${table}
      set ${set(now)}
      from clock cross join picked
      where ${where(now)} and slot = picked_slot and fence = picked_fence
        and next_floor_ms = picked_floor
      returning slot, fence, expires_at, floor_ms, ceiling_ms, now_ms, ${nonce}::bigint as nonce
    `;
  }

  override async columns(session: Session, table: Identifier): Promise<readonly ColumnInfo[]> {
    const { rows } = await session.query(sql`
      select
        a.attname::text as name,
        t.typname::text as type,
        coalesce(c.collisdeterministic, true) as exact
      from pg_catalog.pg_attribute a
      join pg_catalog.pg_type t on t.oid = a.atttypid
      left join pg_catalog.pg_collation c on c.oid = a.attcollation
      where a.attrelid = to_regclass(${quoted(table)})
        and a.attnum > 0
        and not a.attisdropped
    `);
    return rows.map((row) => {
      const type = row.text("type");
      const inexact = inexactTypes.get(type) ??
        (row.boolean("exact") ? undefined : "its collation is nondeterministic");
      const name = row.text("name");
      // In a type of floating point or of another scale two callers can be given the same value.
      const unusable = bigintColumns.has(name) && type !== "int8"
        ? `its type is ${type}, it must be bigint`
        : undefined;
      return { name, inexact, unusable };
    });
  }

  override async weaknesses(
    session: Session,
    tables: PresentTables,
  ): Promise<readonly string[]> {
    const { rows } = await session.query(sql`
      select
        current_setting('server_version_num')::integer / 10000 as major,
        current_setting('synchronous_commit') as synchronous_commit,
        current_setting('fsync') as fsync,
        current_setting('full_page_writes') as full_page_writes,
        current_setting('server_encoding') as server_encoding,
        current_setting('client_encoding') as client_encoding,
        ${persistenceOf(tables.range)} as range_persistence,
        ${persistenceOf(tables.slot)} as slot_persistence,
        ${persistenceOf(tables.namespace)} as namespace_persistence
    `);
    const [row] = rows;
    if (row === undefined) return [];
    if (row.text("client_encoding") !== "UTF8") {
      // The drivers write UTF-8 whatever it says, so a key would be stored as another text.
      throw new ConfigurationError(
        `Cannot open store: the setting client_encoding must be UTF8: received ` +
          row.text("client_encoding"),
      );
    }
    const lost = "a crash can lose committed writes, whose values are then handed out again";
    const found: string[] = [];
    for (const setting of ["synchronous_commit", "fsync", "full_page_writes"]) {
      if (row.text(setting) === "off") found.push(`${setting} is off: ${lost}. Turn it on.`);
    }
    for (const name of ["range", "slot", "namespace"] as const) {
      const column = `${name}_persistence`;
      const persistence = row.isNull(column) ? "p" : row.text(column);
      if (persistence === "t") {
        throw new ConfigurationError(
          `Cannot open store: table ${
            tables[name]
          } is temporary, and every connection has one of ` +
            `its own, make it a permanent table`,
        );
      }
      if (persistence !== "p") {
        found.push(
          `Table ${tables[name]} is unlogged: it is emptied by a crash, and its values are then ` +
            `handed out again. Make it a permanent table.`,
        );
      }
    }
    if (row.text("server_encoding") !== "UTF8") {
      found.push(
        `server_encoding is ${row.text("server_encoding")}: not every key can be stored. ` +
          `Use a database with the encoding UTF8.`,
      );
    }
    if (row.number("major") < testedMajor) {
      found.push(
        `PostgreSQL ${row.number("major")} is older than those that are tested. ` +
          `Use ${testedMajor} or later.`,
      );
    }
    return found;
  }

  override classify(error: unknown): StoreErrorKind {
    const code = typeof error === "object" && error !== null && "code" in error
      ? String(error.code)
      : "";
    const kind = kinds.get(code) ?? kinds.get(code.slice(0, 2));
    if (kind !== undefined) return kind;
    // pg has no code for a connection that ended, could not be had or gave no answer, only words.
    const words = error instanceof Error && !/^[0-9A-Z]{5}$/.test(code) ? error.message : "";
    return /connect|not queryable|read timeout/i.test(words) ? "connection" : "other";
  }
}

/** Why columns of some types take different texts for equal. */
const inexactTypes: ReadonlyMap<string, string> = new Map([
  ["bpchar", "its type char ignores spaces at the end"],
  ["citext", "its type citext ignores case"],
  ["name", "its type name keeps 63 bytes"],
]);

/** Whether a table is permanent, unlogged or temporary; null if there is none. */
function persistenceOf(table: Identifier | undefined): Statement {
  if (table === undefined) return sql`null`;
  return sql`(
    select relpersistence::text from pg_catalog.pg_class
    where oid = to_regclass(${quoted(table)})
  )`;
}

function quoted(table: Identifier): string {
  return table.parts.map(doubleQuoted).join(".");
}

/** By SQLSTATE, by its class, or by the code of a driver or of the platform's sockets. */
const kinds: ReadonlyMap<string, StoreErrorKind> = new Map([
  ["08", "connection"],
  ["23505", "duplicate"],
  ["25006", "readOnly"],
  ["25P03", "connection"],
  ["25P04", "connection"],
  ["28", "permission"],
  ["3F000", "missingTable"],
  ["40000", "serialization"],
  ["40001", "serialization"],
  ["40P01", "deadlock"],
  ["42501", "permission"],
  ["42701", "duplicate"],
  ["42710", "duplicate"],
  ["42P01", "missingTable"],
  ["42P06", "duplicate"],
  ["42P07", "duplicate"],
  ["53100", "diskFull"],
  ["53300", "connection"],
  ["55P03", "serialization"],
  ["57P01", "connection"],
  ["57P02", "connection"],
  ["57P03", "connection"],
  ["57P05", "connection"],
  ["CONNECTION_CLOSED", "connection"],
  ["CONNECTION_DESTROYED", "connection"],
  ["CONNECTION_ENDED", "connection"],
  ["CONNECT_TIMEOUT", "connection"],
  ["ENOENT", "connection"],
  ...socketFailures.map((code) => [code, "connection"] as const),
]);

/** The dialect of PostgreSQL, 15 or later; 12 to 14 are not refused. */
export const postgresqlDialect: Dialect = new PostgresqlDialect();
