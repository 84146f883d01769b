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
import { type Identifier, sql, type Statement } from "./statement.ts";
import type { Tables } from "./tables.ts";

/** A part of the library that has tables of its own. */
export type Feature = "range";

/** How a table is created and, when an older version of it exists, completed. */
export interface TableSchema {
  /** The table. */
  readonly table: Identifier;
  /** Creates it. */
  readonly create: Statement;
  /** Every column that the library uses, and how it is added to a table that lacks it. */
  readonly columns: ReadonlyMap<string, Statement>;
}

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
  abstract weaknesses(session: Session, tables: Tables): Promise<readonly string[]>;

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

  /** What kind of failure a driver's error is. */
  abstract classify(error: unknown): StoreErrorKind;

  /** Whether the database rolled the statement back because of others, so that it may be repeated. */
  isRetryable(kind: StoreErrorKind): boolean {
    return kind === "deadlock" || kind === "serialization";
  }
}
