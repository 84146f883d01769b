/**
 * All SQL that only H2 speaks.
 *
 * A parameter of H2 has no type of its own, so the adapter casts each by the type of its value:
 * a bigint is `cast($1 as bigint)`, a text `cast($1 as varchar)`.
 *
 * @module
 */

import { ConfigurationError, StoreError, type StoreErrorKind } from "../../core/errors.ts";
import type { ServerInfo, Session } from "../../core/sql/client.ts";
import { driverError } from "../../core/sql/database.ts";
import {
  bigintColumns,
  type ColumnInfo,
  Dialect,
  type Feature,
  maxValue,
  nextValueOf,
  type RangeRow,
  type ReserveRequest,
  type RowLock,
  type SlotUpdate,
  type TableSchema,
} from "../../core/sql/dialect.ts";
import { Identifier, sql, type Statement } from "../../core/sql/statement.ts";
import type { PresentTables, Tables } from "../../core/sql/tables.ts";
import { h2Schema } from "../../schema/h2.ts";

/** Asks for the version, in every compatibility mode. Other products do not know the function. */
export const selectVersion: Statement = sql`select h2version() as version`;

/** Asks another product of the protocol what it is. */
export const selectOtherVersion: Statement = sql`select version() as version`;

/** Asks whether the transaction that the connection was in has ended. */
export const selectEnded: Statement = sql`select autocommit() as ended`;

/** Names the transaction that the connection is in; null if that has changed nothing. */
export const selectTransaction: Statement = sql`select transaction_id() as id`;

/** Makes a transaction's work permanent. */
export const commit: Statement = sql`commit`;

/** The SQLSTATE of a failure after which H2 has rolled back the whole transaction, and ended it. */
export const transactionEnded = "40001";

/** The SQLSTATE of a function that PostgreSQL does not know. */
export const unknownFunction = "42883";

/** The SQLSTATE of a statement that H2 was to run though it could not parse it. */
export const notParsed = "08P01";

/** The SQLSTATE of a statement that was not run for want of a value. */
export const valueMissing = "90012";

/** The transaction of the store's was ended by somebody else's statement. */
export class EndedError extends Error {
  /** The SQLSTATE of a transaction whose outcome is unknown. */
  readonly code = "08007";

  /** Makes the error. */
  constructor() {
    super("The transaction was ended by a statement that the store did not send");
  }
}

/** The answer belongs to another statement. */
export class AnswerError extends Error {
  /** The SQLSTATE of a violation of the protocol. */
  readonly code = "08P01";

  /** Makes the error. */
  constructor() {
    super("The connection gave the answer to another statement");
  }
}

/** The first version with SQL of the standard throughout. */
const lowestMajor = 2;

class H2Dialect extends Dialect {
  override readonly name = "h2";

  // In its mode for PostgreSQL, H2's current_timestamp stands still inside a transaction.
  override readonly nowMillis: Statement = sql`(
    select cast(floor(extract(epoch from executing_statement_start) * 1000) as bigint)
    from information_schema.sessions
    where session_id = session_id()
  )`;

  override supports(server: ServerInfo): boolean {
    return server.product === "H2" && Number.parseInt(server.version) >= lowestMajor;
  }

  override schema(feature: Feature, tables: Tables): readonly TableSchema[] {
    return h2Schema(feature, tables).map(({ table, create, columns, ...rest }) => ({
      ...rest,
      table,
      create: claimed(table, create),
      columns: new Map([...columns].map(([name, add]) => [name, claimed(table, add)])),
    }));
  }

  override async reserve(session: Session, request: ReserveRequest): Promise<bigint | undefined> {
    const { table, key, size, initialOffset, nonce } = request;
    // Inside a transaction nothing is merged: only the application's can be one, and what it reserved
    // a rollback would hand out again.
    const reserved = session.query(sql`
      select next_value, ${nonce} as nonce
      from final table (
        merge into ${table} as known
        using (select ${key} as range_key where autocommit()) as given
        on known.range_key = given.range_key
        when matched and not known.sealed and known.next_value <= ${maxValue - size} then
          update set next_value = known.next_value + ${size}
        when not matched then
          insert (range_key, next_value) values (given.range_key, ${initialOffset + size})
      )
    `);
    return nextValueOf(await reserved.catch(repeatDuplicate), request);
  }

  override insertRangeIfAbsent({ table, key, nextValue, sealed }: RangeRow): Statement {
    // It fails as a duplicate rather than look first: a session that reads what is not committed would
    // take a row for there that is about to vanish.
    return sql`
      insert into ${table} (range_key, next_value, sealed)
      values (${key}, ${nextValue}, ${sealed})
    `;
  }

  override readonly returnsSlots = true;

  // It has no lock that others can share.
  override readonly shareRow: RowLock = { clause: sql` for update` };

  override updateSlot({ table, set, where, nonce, inTransaction }: SlotUpdate): Statement {
    const now = this.nowMillis;
    const alone = inTransaction ? sql`true` : sql`autocommit()`;
    return sql`
      select slot, fence, expires_at, floor_ms, ceiling_ms, ${now} as now_ms, ${nonce} as nonce
      from final table (
        update ${table} set ${set(now)} where ${alone} and ${where(now)}
      )
    `;
  }

  override async columns(session: Session, table: Identifier): Promise<readonly ColumnInfo[]> {
    const schema = table.schema === undefined ? sql`current_schema` : sql`${table.schema}`;
    const { rows } = await repeatGeneral(() =>
      // The clock in the text: H2 gives the rows of a statement again if nothing seems to have changed,
      // and a table that is just being altered may seem so for good.
      session.query(sql`
        select
          column_name as name,
          lower(data_type) as type,
          coalesce(collation_name, 'OFF') as collation,
          ${this.nowMillis} as now_ms
        from information_schema.columns
        where table_schema = ${schema} and table_name = ${table.name}
      `)
    );
    return rows.map((row) => {
      const [name, type] = [row.text("name"), row.text("type")];
      const collation = row.text("collation");
      const inexact = inexactTypes.get(type) ??
        (collation === "OFF" ? undefined : `its collation is ${collation}`);
      // In a type of floating point two callers can be given the same value.
      const unusable = bigintColumns.has(name) && type !== "bigint"
        ? `its type is ${type}, it must be bigint`
        : undefined;
      return { name, inexact, unusable };
    });
  }

  override async weaknesses(
    session: Session,
    { range, slot, namespace }: PresentTables,
  ): Promise<readonly string[]> {
    const { rows: [row] } = await session.query(sql`
      select
        database_path() is null as in_memory,
        coalesce(
          (
            select setting_value from information_schema.settings
            where upper(setting_name) = 'WRITE_DELAY'
          ),
          '500'
        ) as write_delay
    `);
    if (row === undefined) return [];
    const again = "values are then handed out again";
    const found: string[] = [];
    if (row.boolean("in_memory")) {
      found.push(
        `The database is in memory: it ends with the server, or with its last connection, and its ` +
          `${again}. Use one in a file.`,
      );
    } else if (row.text("write_delay") !== "0") {
      found.push(
        `write_delay is ${row.text("write_delay")} ms: what was committed is written that much ` +
          `later, a crash loses it, and its ${again}. Set it to 0.`,
      );
    }
    for (const table of [range, slot, namespace]) {
      const storage = table === undefined ? "" : await storageOf(session, table);
      if (storage === "LOCAL TEMPORARY") {
        throw new ConfigurationError(
          `Cannot open store: table ${table} is temporary, and every connection has one of its own, ` +
            `make it a permanent table`,
        );
      }
      if (storage.includes("TEMPORARY")) {
        found.push(
          `Table ${table} is temporary: its rows end with the server, and their ${again}. ` +
            `Make it a permanent table.`,
        );
      }
    }
    return found;
  }

  override classify(error: unknown): StoreErrorKind {
    const code = typeof error === "object" && error !== null && "code" in error
      ? String(error.code)
      : "";
    const words = error instanceof Error ? error.message : "";
    if (/No space left|disk is full/i.test(words)) return "diskFull";
    if (claimTaken.test(words)) return "serialization";
    return kinds.get(code) ?? kinds.get(code.slice(0, 2)) ?? "other";
  }
}

/** How a table is stored; empty if there is none. */
async function storageOf(session: Session, table: Identifier): Promise<string> {
  const schema = table.schema === undefined ? sql`current_schema` : sql`${table.schema}`;
  const { rows: [row] } = await session.query(sql`
    select storage_type from information_schema.tables
    where table_schema = ${schema} and table_name = ${table.name}
  `);
  return row?.text("storage_type") ?? "";
}

/**
 * Two merges of one new key both insert it; the one that comes second fails, having changed nothing.
 * Repeated, it finds the row.
 */
function repeatDuplicate(error: unknown): never {
  if (error instanceof StoreError && error.kind === "duplicate") {
    throw driverError("serialization", error.statement, error.cause);
  }
  throw error;
}

/** Repeats a read of the schema, which fails in H2 when it meets a table that is just being altered. */
async function repeatGeneral<T>(read: () => Promise<T>): Promise<T> {
  for (let attempt = 1;; attempt++) {
    try {
      return await read();
    } catch (error) {
      const { cause } = error instanceof StoreError ? error : {};
      const isGeneral = cause instanceof Error && "code" in cause && cause.code === generalError;
      if (!isGeneral || attempt === maxReads) throw error;
    }
  }
}

const generalError = "HY000";
const maxReads = 5;

/** Why columns of some types take different texts for equal. */
const inexactTypes: ReadonlyMap<string, string> = new Map([
  ["character", "its type char ignores spaces at the end"],
  ["varchar_ignorecase", "its type varchar_ignorecase ignores case"],
]);

const claimSuffix = "_altering";

/** The failure of a statement whose claim somebody else has: it has done nothing. */
const claimTaken = new RegExp(`SQL statement:\\s+create table [^(]*${claimSuffix}"`);

/**
 * Creates or alters a table while nobody else does. H2 adds a column by copying the table and dropping
 * the first: two sessions that do so at once, or one that creates what is just being copied, lose it
 * with all its rows. H2 has no lock that outlasts such a statement, so a table stands for one. The
 * server runs all three statements, whatever becomes of the connection; should it end in between, the
 * error names the table that is to be dropped.
 */
function claimed(table: Identifier, statement: Statement): Statement {
  const { schema } = table;
  const name = table.name.slice(0, longestName - claimSuffix.length) + claimSuffix;
  const claim = Identifier.parse(schema === undefined ? name : `${schema}.${name}`, "rangeTable");
  return sql`create table ${claim} (id integer); ${statement}; drop table ${claim}`;
}

const longestName = 63;

/**
 * By the SQLSTATE, which for errors of H2's own is the number of the error; by the SQLSTATE's class;
 * or by the code of the driver or of the platform's sockets.
 */
const kinds: ReadonlyMap<string, StoreErrorKind> = new Map([
  ["08", "connection"],
  ["23505", "duplicate"],
  ["28", "permission"],
  // A deadlock, or a row that another transaction changed after this one's snapshot was taken.
  ["40001", "deadlock"],
  ["42S01", "duplicate"],
  ["42S02", "missingTable"],
  ["42S03", "missingTable"],
  ["42S04", "missingTable"],
  ["42S21", "duplicate"],
  ["90007", "connection"],
  ["90020", "connection"],
  ["90040", "permission"],
  ["90067", "connection"],
  ["90078", "duplicate"],
  ["90079", "missingTable"],
  ["90096", "permission"],
  ["90097", "readOnly"],
  ["90098", "connection"],
  ["90121", "connection"],
  ["90131", "serialization"],
  ["90135", "connection"],
  // A lock that did not come free in time: the statement has changed nothing.
  ["HYT00", "serialization"],
  ["CONNECTION_CLOSED", "connection"],
  ["CONNECTION_DESTROYED", "connection"],
  ["CONNECTION_ENDED", "connection"],
  ["CONNECT_TIMEOUT", "connection"],
  ["EAI_AGAIN", "connection"],
  ["ECONNABORTED", "connection"],
  ["ECONNREFUSED", "connection"],
  ["ECONNRESET", "connection"],
  ["EHOSTUNREACH", "connection"],
  ["ENETUNREACH", "connection"],
  ["ENOTFOUND", "connection"],
  ["EPIPE", "connection"],
  ["ETIMEDOUT", "connection"],
]);

/** The dialect of H2, 2.0 or later. */
export const h2Dialect: Dialect = new H2Dialect();
