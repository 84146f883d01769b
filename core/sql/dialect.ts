/**
 * What a database's dialect implements: the SQL that only this database speaks. All of it stands on
 * one page, the dialect's module; what every database understands stands with the algorithm that
 * uses it.
 *
 * @module
 */

import type { StoreErrorKind } from "../errors.ts";
import type { ServerInfo, Session } from "./client.ts";
import type { QueryResult } from "./row.ts";
import { type Identifier, literal, sql, type Statement } from "./statement.ts";
import type { PresentTables, Tables } from "./tables.ts";

const nothing = sql``;

/** A part of the library that has tables of its own. */
export type Feature = "range" | "slot";

/** How a table is created and, when an older version of it exists, completed. */
export interface TableSchema {
  /** The table. */
  readonly table: Identifier;
  /** Creates it. */
  readonly create: Statement;
  /** Every column that the library uses, and how it is added to a table that lacks it. */
  readonly columns: ReadonlyMap<string, Statement>;
  /**
   * Columns whose texts only the library makes, of one length and in one case, so that any collation
   * tells them apart.
   */
  readonly tokens?: ReadonlySet<string>;
}

/** The most UTF-16 units that the library stores in a column of text. */
export function longestTextIn(column: string): number {
  return lengths.get(column) ?? maxTextLength;
}

const maxTextLength = 255;

const lengths: ReadonlyMap<string, number> = new Map([["namespace", 100], ["incarnation", 36]]);

/** The columns whose integers have 64 bits: in another type two values may become one. */
export const bigintColumns: ReadonlySet<string> = new Set([
  "next_value",
  "fence",
  "expires_at",
  "floor_ms",
  "ceiling_ms",
  "next_floor_ms",
  "tolerance_ms",
]);

/** A column as the database has it. */
export interface ColumnInfo {
  /** Its name. */
  readonly name: string;
  /**
   * Why two different texts may count as equal in it, such as "it ignores case"; undefined if they
   * never do, or if it holds no text.
   */
  readonly inexact?: string;
  /**
   * Why the library cannot use it, such as "its type is real, it must be bigint"; undefined if it can.
   */
  readonly unusable?: string;
}

/** A reserve, already checked. `initialOffset + size` is at most 2^63 - 1. */
export interface ReserveRequest {
  /** The table of ranges. */
  readonly table: Identifier;
  /** The key. */
  readonly key: string;
  /** How many values to take: at least 1. */
  readonly size: bigint;
  /** Where a key that was never used starts: at least 0. */
  readonly initialOffset: bigint;
  /**
   * A number that no other request has. A statement that returns a row returns it too: drivers and
   * poolers have been seen to give a statement the answer to another.
   */
  readonly nonce: bigint;
}

/** A row of ranges to insert. */
export interface RangeRow {
  /** The table of ranges. */
  readonly table: Identifier;
  /** The key. */
  readonly key: string;
  /** The first value that is not handed out yet. */
  readonly nextValue: bigint;
  /** Whether the key never gives another value. */
  readonly sealed: boolean;
}

/**
 * What makes a select see, and keep, the latest committed row of the primary. Either stands in its
 * text with a space before it.
 */
export interface RowLock {
  /** Follows the table's name. */
  readonly hint?: Statement;
  /** Ends the statement. */
  readonly clause?: Statement;
}

/** A change of rows of slots. */
export interface SlotUpdate {
  /** The table of slots. */
  readonly table: Identifier;
  /**
   * The assignments, given the store clock, which is one value throughout the statement. None uses a
   * column that one before it has assigned: some databases would take the new value.
   */
  readonly set: (now: Statement) => Statement;
  /** Which rows. */
  readonly where: (now: Statement) => Statement;
  /** As for a reserve. */
  readonly nonce: bigint;
  /** Whether it is the first statement of a transaction that the store has begun. */
  readonly inTransaction?: boolean;
}

/** An acquire in one statement: a row is picked, locked and changed. */
export interface SlotTake extends SlotUpdate {
  /** Which rows can be picked, by what is read without a lock. */
  readonly candidates: (now: Statement) => Statement;
  /** Which of them comes first. */
  readonly order: Statement;
  /** Whether the namespace is as the caller takes it to be, and has all its rows. */
  readonly settled: Statement;
}

/** A holder of a slot. */
export interface SlotHolder {
  /** The table of slots. */
  readonly table: Identifier;
  /** The namespace of the slot. */
  readonly namespace: string;
  /** The slot. */
  readonly slot: number;
  /** The holder's fence. */
  readonly fence: number;
  /** The holder's incarnation. */
  readonly incarnation: string;
}

/** Which row of slots a holder's is, as long as it holds it. */
export function isHeldBy({ namespace, slot, fence, incarnation }: SlotHolder): Statement {
  return sql`namespace = ${namespace} and slot = ${slot} and fence = ${fence}
    and incarnation = ${incarnation}`;
}

/** The largest value that a range can end at: 2^63 - 1. */
export const maxValue = 9223372036854775807n;

/**
 * The next value out of a row with the columns `next_value` and `nonce`; undefined without a row, and
 * for one that answers another request.
 */
export function nextValueOf(
  { rows: [row] }: QueryResult,
  { nonce }: Pick<ReserveRequest, "nonce">,
): bigint | undefined {
  if (row === undefined || !row.has("nonce") || row.bigint("nonce") !== nonce) return undefined;
  return row.bigint("next_value");
}

/** The SQL of one database. Extend it to bring a dialect of your own. */
export abstract class Dialect {
  /** Its name, such as "postgresql". */
  abstract readonly name: string;

  /**
   * The store clock: UTC milliseconds since the epoch as an integer expression, independent of the
   * session's time zone and moving within a transaction.
   */
  abstract readonly nowMillis: Statement;

  /**
   * How a read locks its row; `for update` unless a dialect says otherwise. Undefined where rows
   * cannot be locked, then such a read runs in a transaction.
   */
  readonly lockRow: RowLock | undefined = { clause: sql` for update` };

  /**
   * Whether texts that differ only in spaces at their end are equal, whatever the collation. Then a
   * text that is compared and ends in a space is refused before anything is sent.
   */
  readonly ignoresTrailingSpace: boolean = false;

  /** How a read keeps others from changing its row until the transaction has ended. */
  readonly shareRow: RowLock = { clause: sql` for share` };

  /**
   * Whether the statement of {@linkcode updateSlot} returns each row that it changed: the columns
   * `slot`, `fence`, `expires_at`, `floor_ms` and `ceiling_ms` as it wrote them, the store clock that it
   * used as `now_ms`, and the `nonce`. Where it does not, it may report that clock as the generated key.
   */
  readonly returnsSlots: boolean = false;

  /** Whether this dialect speaks to that server. */
  abstract supports(server: ServerInfo): boolean;

  /** How the tables of a feature are created. */
  abstract schema(feature: Feature, tables: Tables): readonly TableSchema[];

  /** The columns that a table has; none if there is no such table. */
  abstract columns(session: Session, table: Identifier): Promise<readonly ColumnInfo[]>;

  /**
   * Settings of the server that weaken what the store promises for its tables, each as a sentence that
   * says what to do about it.
   *
   * @throws {ConfigurationError} If a setting or a table cannot be used at all.
   */
  abstract weaknesses(session: Session, tables: PresentTables): Promise<readonly string[]>;

  /**
   * Takes `size` values of a key in one statement and gives the key's next value after it, which
   * {@linkcode nextValueOf} reads out of a row. Undefined if the key is sealed or has fewer values
   * left, then the row is unchanged.
   */
  abstract reserve(session: Session, request: ReserveRequest): Promise<bigint | undefined>;

  /**
   * Inserts a row of ranges if its key has none, in one statement; else it changes nothing and counts
   * no row, or fails as a duplicate.
   */
  abstract insertRangeIfAbsent(row: RangeRow): Statement;

  /** Changes rows of slots, and returns them if {@linkcode returnsSlots} says so. */
  updateSlot({ table, set, where }: SlotUpdate): Statement {
    return sql`update ${table} set ${set(this.nowMillis)} where ${where(this.nowMillis)}`;
  }

  /**
   * Picks a row of slots and changes it in one statement, which returns it as `updateSlot` does, or
   * nothing if it found none that nobody else was just picking. Absent where no statement can.
   */
  takeSlot?(take: SlotTake): Statement;

  /**
   * Whether a holder holds its slot, in the application's transaction. If so, nobody else can take it
   * until that has ended.
   */
  async assertSlot(session: Session, holder: SlotHolder): Promise<boolean> {
    const { hint = nothing, clause = nothing } = this.shareRow;
    const { rows } = await session.query(sql`
      select slot, ${this.nowMillis} as now_ms
      from ${holder.table}${hint}
      where ${isHeldBy(holder)}${clause}
    `);
    return rows.length > 0;
  }

  /** Ends a select with `order by`, so that it gives its first rows only. */
  firstRows(count: number): Statement {
    return sql` limit ${literal(count)}`;
  }

  /** The remainder of an integer division. */
  remainder(dividend: Statement, divisor: Statement): Statement {
    return sql`${dividend} % ${divisor}`;
  }

  /** What kind of failure a driver's error is. */
  abstract classify(error: unknown): StoreErrorKind;

  /** Whether the database rolled the statement back because of others, so that it may be repeated. */
  isRetryable(kind: StoreErrorKind): boolean {
    return kind === "deadlock" || kind === "serialization";
  }
}
