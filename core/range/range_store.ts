/**
 * Id ranges.
 *
 * A row of the range table holds a key's next value, the first that was not handed out yet. A
 * reserve adds `size` to it and gives `[next - size, next)` of the value that it wrote, so what two
 * callers get never overlaps, in whatever order their statements commit.
 *
 * ```text
 *   next_value   1                    1,001              1,101
 *                |---- reserve 1,000 ----|-- reserve 100 --|  free →  2^63 - 1
 * ```
 *
 * What each operation sends:
 *
 * - `reserve`, plan `statement`: one upsert that returns the new value, one round trip. The guards
 *   (not sealed, not past 2^63 - 1) are in it, so a refused reserve changes nothing; only then a
 *   second statement reads the reason, locking the row.
 * - `reserve`, plan `transaction`: insert the key if this process has not used it, in a commit of its
 *   own; then begin, update, read, commit. For proxies that answer from elsewhere.
 * - `seal`, `advance`: an update; if it changed nothing a locking read that tells why; if there is no
 *   row an insert.
 * - `read`: one select.
 *
 * What can fail: a call ends with an unknown outcome (a timeout, a broken connection). Then nothing
 * is repeated; if the statement had committed, its values are a gap. A value that cannot be the one
 * that was written (below `size`, or below what this process had received before) hands out nothing.
 * Neither does a row without the number that its statement was given, and no other was: drivers and
 * poolers have given a statement the answer to another.
 *
 * The method is that of CosId's range store: one counter row a key, moved in one statement.
 *
 * @module
 */

import { callOptionNames, checkCallOptions, checkInteger, checkKey } from "../arguments.ts";
import {
  RangeExhaustedError,
  RangeSealedError,
  ReserveConflictError,
  StoreError,
} from "../errors.ts";
import { emit } from "../events.ts";
import type { CallOptions, Deadline } from "../runtime.ts";
import type { QueryOptions, TransactionScript } from "../sql/client.ts";
import type { Database } from "../sql/database.ts";
import {
  maxValue,
  nextValueOf,
  type RangeRow,
  type ReserveRequest,
  type RowLock,
} from "../sql/dialect.ts";
import type { Row } from "../sql/row.ts";
import { type Identifier, sql, type Statement } from "../sql/statement.ts";
import { GroupReserve } from "./group_reserve.ts";
import { HighestEnds } from "./highest_ends.ts";
import type { Range, Reservation } from "./range.ts";

/** What the range table holds for a key. */
export interface RangeState {
  /** The first value that was not handed out yet. */
  readonly nextValue: bigint;
  /** Whether the key never gives another value. */
  readonly sealed: boolean;
}

/** The options of a reserve. */
export interface ReserveOptions extends CallOptions {
  /**
   * Where a key that was never used starts, from 0 up; ignored once the key exists. Together with
   * the size at most 2^63 - 1.
   *
   * @default {1n}
   */
  initialOffset?: number | bigint;
}

/**
 * How a reserve reaches the database. `statement`: one statement, one round trip. `transaction`: an
 * update and a read in a transaction, for a SQL proxy or read-write splitting in between.
 */
export type FetchPlan = "statement" | "transaction";

const noOptions: ReserveOptions = Object.freeze({});

const reserveOptionNames = [...callOptionNames, "initialOffset"];

const defaultOffset = 1n;

const nothing = sql``;

/**
 * Id ranges over one table. A store has one as `store.ranges`.
 *
 * @example
 * ```ts
 * import { openStore } from "@fencepost/store";
 *
 * const store = await openStore("sqlite::memory:", { initSchema: true });
 * const { start, end } = await store.ranges.reserve("order", 1_000);
 * console.log(start, end); // 1n 1001n
 * await store.close();
 * ```
 */
export class RangeStore {
  readonly #database: Database;
  readonly #table: Identifier;
  readonly #fetchPlan: FetchPlan;
  readonly #groups: GroupReserve | undefined;
  readonly #highest = new HighestEnds();
  #nonce: bigint;

  /** Used by the store. */
  constructor(
    database: Database,
    options: { table: Identifier; fetchPlan: FetchPlan; groupReserve: boolean },
  ) {
    this.#database = database;
    this.#table = options.table;
    this.#fetchPlan = options.fetchPlan;
    this.#nonce = BigInt(Math.floor(database.runtime.random() * 2 ** 53));
    this.#groups = options.groupReserve
      ? new GroupReserve(database.runtime, (reservation, calls) => this.#take(reservation, calls))
      : undefined;
  }

  /**
   * Takes the next `size` values of a key, in one round trip.
   *
   * Calls of one key that arrive while another is under way are sent as one statement and share its
   * result, unless the store was opened with `groupReserve: false`.
   *
   * @param key 1 to 255 UTF-16 units of well-formed Unicode without NUL. Keys that differ in case,
   * accent, normalisation or trailing space are different keys.
   * @param size How many values, from 1 to 2^63 - 1; a bigint or a safe integer.
   * @param options Where a new key starts, and how long the call may take.
   * @throws {RangeSealedError} If the key is sealed.
   * @throws {RangeExhaustedError} If fewer values are left below 2^63; none is taken.
   * @throws {ReserveConflictError} If the answer is not what the statement wrote; none is given.
   * @throws {TimeoutError} If it did not end in time; it may have left a gap.
   * @throws {StoreError} If the database or the driver failed.
   * @throws {InTransactionError} If it would run inside a transaction of the application's.
   * @throws {InvalidArgumentError} If an argument is not allowed; nothing was sent.
   */
  reserve(
    key: string,
    size: number | bigint,
    options: ReserveOptions = noOptions,
  ): Promise<Range> {
    try {
      const reservation = this.#reservation(key, size, options);
      return this.#groups?.reserve(reservation) ?? this.#take(reservation, 1);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #reservation(key: string, size: number | bigint, options: ReserveOptions): Reservation {
    const action = "reserve range";
    checkKey(action, key, this.#database.dialect);
    checkCallOptions(action, options, reserveOptionNames);
    const count = checkInteger(action, size, { what: "the size", least: 1n });
    const initialOffset = options.initialOffset === undefined
      ? firstOffset(action, count)
      : checkInteger(action, options.initialOffset, {
        what: "initialOffset",
        least: 0n,
        most: maxValue - count,
      });
    const deadline = this.#database.deadline(options);
    return { key, size: count, initialOffset, deadline };
  }

  /**
   * Ends a key for good: no later reserve gets a value. Its next value stays. Works for a key that
   * was never used, and for one that is sealed already.
   *
   * @param key As for `reserve`.
   * @param options How long the call may take.
   * @throws {TimeoutError} If it did not end in time; it can be repeated.
   * @throws {StoreError} If the database or the driver failed; it can be repeated.
   * @throws {InvalidArgumentError} If an argument is not allowed; nothing was sent.
   */
  async seal(key: string, options: CallOptions = {}): Promise<void> {
    const action = "seal range";
    checkKey(action, key, this.#database.dialect);
    checkCallOptions(action, options);
    await this.#change("range.seal", {
      key,
      deadline: this.#database.deadline(options),
      insert: { nextValue: defaultOffset, sealed: true },
      update: sql`
        update ${this.#table} set sealed = ${true}
        where range_key = ${key} and sealed = ${false}
      `,
      isDone: (state) => state.sealed,
    });
  }

  /**
   * Raises a key's next value to `to`, for imports and after lost writes; never lowers it. A key that
   * was never used starts there.
   *
   * @param key As for `reserve`.
   * @param to The first value that may be handed out, from 0 to 2^63 - 1.
   * @param options How long the call may take.
   * @returns The key's next value: `to`, or a higher one that it had already.
   * @throws {RangeSealedError} If the key is sealed.
   * @throws {TimeoutError} If it did not end in time; it can be repeated.
   * @throws {StoreError} If the database or the driver failed; it can be repeated.
   * @throws {InvalidArgumentError} If an argument is not allowed; nothing was sent.
   */
  async advance(key: string, to: number | bigint, options: CallOptions = {}): Promise<bigint> {
    const action = "advance range";
    checkKey(action, key, this.#database.dialect);
    checkCallOptions(action, options);
    const nextValue = checkInteger(action, to, { what: "the next value", least: 0n });
    const existing = await this.#change("range.advance", {
      key,
      deadline: this.#database.deadline(options),
      insert: { nextValue, sealed: false },
      update: sql`
        update ${this.#table} set next_value = ${nextValue}
        where range_key = ${key} and sealed = ${false} and next_value < ${nextValue}
      `,
      isDone: (state) => {
        if (state.sealed) throw new RangeSealedError(action, key);
        return state.nextValue >= nextValue;
      },
    });
    return existing?.nextValue ?? nextValue;
  }

  /**
   * Reads a key without taking anything.
   *
   * @param key As for `reserve`.
   * @param options How long the call may take.
   * @returns The key's next value and whether it is sealed; undefined if it was never used.
   * @throws {TimeoutError} If it did not end in time.
   * @throws {StoreError} If the database or the driver failed.
   * @throws {InvalidArgumentError} If an argument is not allowed; nothing was sent.
   */
  async read(key: string, options: CallOptions = {}): Promise<RangeState | undefined> {
    const action = "read range";
    checkKey(action, key, this.#database.dialect);
    checkCallOptions(action, options);
    const call = { name: "range.read", deadline: this.#database.deadline(options) };
    const { rows } = await this.#database.query(this.#select(key), call);
    return stateOf(rows[0]);
  }

  /** One reserve: a statement or a transaction, checked, then its reason if nothing came back. */
  #take(reservation: Reservation, calls: number): Promise<Range> {
    const { key, size, initialOffset, deadline } = reservation;
    const { dialect, runtime, onEvent } = this.#database;
    const sent: Sent = {
      request: { table: this.#table, key, size, initialOffset, nonce: ++this.#nonce },
      call: { name: "range.reserve", deadline },
      lowest: (this.#highest.get(key) ?? 0n) + size,
      calls,
      startedMs: onEvent ? runtime.monotonicMs() : 0,
    };
    const session = this.#database.session(sent.call);
    const taken = this.#fetchPlan === "statement"
      ? this.#database.retry(() => dialect.reserve(session, sent.request), sent.call)
      : this.#takeByTransaction(sent.request, sent.call);
    return taken.then((next) => this.#taken(sent, next));
  }

  #taken(sent: Sent, next: bigint | undefined): Range | Promise<never> {
    const { request: { key, size }, lowest } = sent;
    if (next === undefined || next < lowest) return this.#refuse(sent, next);
    this.#highest.raise(key, next);
    const range = { start: next - size, end: next };
    const { runtime, onEvent } = this.#database;
    if (onEvent) {
      const durationMs = runtime.monotonicMs() - sent.startedMs;
      emit(onEvent, { type: "reserve", key, ...range, calls: sent.calls, durationMs });
    }
    return range;
  }

  /** Throws why there is no range. */
  async #refuse({ request, call, lowest }: Sent, next: bigint | undefined): Promise<never> {
    const { key } = request;
    if (next === undefined) await this.#throwReason(request, call.deadline);
    const error = new ReserveConflictError(key, { returned: next, lowest });
    const { onEvent } = this.#database;
    if (onEvent) emit(onEvent, { type: "conflict", key, returned: next, behindBy: error.behindBy });
    throw error;
  }

  async #takeByTransaction(
    request: ReserveRequest,
    call: QueryOptions,
  ): Promise<bigint | undefined> {
    // The insert has a commit of its own: after an update that met no row, in one transaction, two
    // inserts deadlock on InnoDB. A key that this process has received values of exists.
    if (this.#highest.get(request.key) === undefined) await this.#insert(request, call);
    const next = await this.#database.transaction(takeScript(request), call);
    if (next !== undefined || !await this.#insert(request, call)) return next;
    // Somebody had deleted the row that this process knew of.
    return await this.#database.transaction(takeScript(request), call);
  }

  /** Whether the key was absent. */
  async #insert(request: ReserveRequest, call: QueryOptions): Promise<boolean> {
    const { table, key, initialOffset } = request;
    return await this.#insertIfAbsent(
      { table, key, nextValue: initialOffset, sealed: false },
      { name: "range.insert", deadline: call.deadline },
    );
  }

  async #insertIfAbsent(row: RangeRow, call: QueryOptions): Promise<boolean> {
    const statement = this.#database.dialect.insertRangeIfAbsent(row);
    try {
      const { affected } = await this.#database.retry(
        () => this.#database.query(statement, call),
        call,
      );
      return affected > 0;
    } catch (error) {
      if (error instanceof StoreError && error.kind === "duplicate") return false;
      throw error;
    }
  }

  async #throwReason(request: ReserveRequest, deadline: Deadline): Promise<void> {
    const { key, size } = request;
    const state = await this.#readLatest(key, { name: "range.reason", deadline });
    if (state?.sealed) throw new RangeSealedError("reserve range", key);
    if (state && state.nextValue > maxValue - size) {
      throw new RangeExhaustedError(key, { nextValue: state.nextValue, size });
    }
  }

  /**
   * Updates a row, or finds out by reading why that changed nothing, or inserts the row. A count of 0
   * does not tell "unchanged" from "no row", so only the read decides.
   *
   * @returns The row as it was read, if it needed no change.
   */
  async #change(name: string, change: Change): Promise<RangeState | undefined> {
    const { key, deadline, insert } = change;
    const call = { name, deadline };
    for (;;) {
      const { affected } = await this.#database.retry(
        () => this.#database.query(change.update, call),
        call,
      );
      if (affected > 0) return undefined;
      const state = await this.#readLatest(key, call);
      if (state === undefined) {
        const row = { table: this.#table, key, ...insert };
        if (await this.#insertIfAbsent(row, call)) return undefined;
      } else if (change.isDone(state)) return state;
      // Another process inserted or changed the row between the statements; the deadline bounds this.
    }
  }

  /** The row as the primary has it now: a locking read, or one in a transaction. */
  async #readLatest(key: string, call: QueryOptions): Promise<RangeState | undefined> {
    const { lockRow } = this.#database.dialect;
    if (lockRow === undefined && this.#database.hasTransactions) {
      const select = this.#select(key);
      const script = function* (): ReturnType<TransactionScript<RangeState | undefined>> {
        const { rows } = yield select;
        return stateOf(rows[0]);
      };
      return await this.#database.transaction(script, call);
    }
    const statement = this.#select(key, lockRow);
    const { rows } = await this.#database.retry(
      () => this.#database.query(statement, call),
      call,
    );
    return stateOf(rows[0]);
  }

  /** The clock in the text keeps gateways that cache plain selects from answering. */
  #select(key: string, { hint = nothing, clause = nothing }: RowLock = {}): Statement {
    return sql`
      select next_value, sealed, ${this.#database.dialect.nowMillis} as now_ms
      from ${this.#table}${hint}
      where range_key = ${key}${clause}`;
  }
}

/** A reserve that is under way. */
interface Sent {
  readonly request: ReserveRequest;
  readonly call: QueryOptions;
  /** The lowest next value that it can have written. */
  readonly lowest: bigint;
  /** How many calls it is for. */
  readonly calls: number;
  readonly startedMs: number;
}

interface Change {
  readonly key: string;
  readonly deadline: Deadline;
  readonly update: Statement;
  /** The row to insert if there is none. */
  readonly insert: RangeState;
  /** Whether the row, as read, needs no change. */
  readonly isDone: (state: RangeState) => boolean;
}

function takeScript(request: ReserveRequest): TransactionScript<bigint | undefined> {
  const { table, key, size, nonce } = request;
  return function* () {
    const { affected } = yield sql`
      update ${table} set next_value = next_value + ${size}
      where range_key = ${key} and sealed = ${false} and next_value <= ${maxValue - size}
    `;
    if (affected === 0) return undefined;
    const result = yield sql`
      select next_value, ${nonce} as nonce from ${table} where range_key = ${key}
    `;
    return nextValueOf(result, request);
  };
}

function stateOf(row: Row | undefined): RangeState | undefined {
  return row && { nextValue: row.bigint("next_value"), sealed: row.boolean("sealed") };
}

function firstOffset(action: string, size: bigint): bigint {
  checkInteger(action, size, {
    what: "the size, together with initialOffset 1,",
    least: 1n,
    most: maxValue - defaultOffset,
  });
  return defaultOffset;
}
