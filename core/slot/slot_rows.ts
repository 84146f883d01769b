/**
 * The rows of slots as the algorithms of leases read and write them: what a statement confirms, when it
 * was sent, and what it tells of the store clock.
 *
 * Plan `statement`: a read is one select, a change one update, whose row comes back where the database
 * returns it. Plan `transaction`: each read in a transaction, and each change in one with a read of the
 * row behind it.
 *
 * @module
 */

import { ConfigurationError, StoreError } from "../errors.ts";
import { emit } from "../events.ts";
import type { QueryOptions, TransactionScript } from "../sql/client.ts";
import type { Database } from "../sql/database.ts";
import type { SlotHolder, SlotUpdate } from "../sql/dialect.ts";
import type { QueryResult, Row } from "../sql/row.ts";
import type { Statement } from "../sql/statement.ts";
import type { SlotLeaseData } from "./slot_lease.ts";
import { selectHeld, type SlotTables } from "./slot_statements.ts";
import { StoreClock } from "./store_clock.ts";

/** What confirmed a lease: from when, and for how long it lasts at least. */
export interface Confirmation {
  /** When the attempt or read was sent, on the monotonic clock. */
  readonly sentMs: number;
  /** The same moment on the host's clock. */
  readonly sentWallMs: number;
  /** How long the lease lasts from then on, in milliseconds. */
  readonly lastsMs: number;
  /** Whether it was renewed, or only found by reading it. */
  readonly written: boolean;
}

/** When a statement was sent. */
export type Moment = Pick<Confirmation, "sentMs" | "sentWallMs">;

/** What became of a change of a holder's row. */
export interface Written {
  readonly sent: Moment;
  /** Whether the row is the holder's, as changed. */
  readonly done: boolean;
  /** What the row holds, where it was returned or read. */
  readonly row?: Row;
  /** What the store clock was; 0 if it was not told. */
  readonly storeMs: number;
  /** How long the lease lasts, if it was read: its whole time otherwise. */
  readonly lastsMs?: number;
}

/** The rows of slots of a store. */
export class SlotRows {
  /** The tables. */
  readonly tables: SlotTables;
  /** The plan. */
  readonly byTransaction: boolean;
  /** The store clock, as far as it is known. */
  readonly clock: StoreClock = new StoreClock();
  readonly #database: Database;
  #nonce: bigint;

  /**
   * Puts a database and its tables together.
   *
   * @param database The client and its dialect.
   * @param options The tables, and how they are reached.
   */
  constructor(database: Database, options: { tables: SlotTables; byTransaction: boolean }) {
    this.#database = database;
    this.tables = options.tables;
    this.byTransaction = options.byTransaction;
    this.#nonce = BigInt(Math.floor(database.runtime.random() * 2 ** 53));
  }

  /** A number that no other request has. */
  nextNonce(): bigint {
    return ++this.#nonce;
  }

  /** Changes a holder's row, and tells whether it is the holder's then. */
  async change(
    change: Pick<SlotUpdate, "set" | "where">,
    { holder, ...call }: { holder: SlotHolder } & QueryOptions,
  ): Promise<Written> {
    const { dialect } = this.#database;
    const nonce = this.nextNonce();
    const update = { ...change, table: this.tables.slot, nonce };
    if (this.byTransaction) return await this.#changeByTransaction(update, { holder, ...call });
    const { result, sent } = await this.send(dialect.updateSlot(update), call);
    if (!dialect.returnsSlots) {
      return { sent, done: result.affected > 0, storeMs: Number(result.generatedKey ?? 0n) };
    }
    const row = rowOf(result, { nonce, call });
    return { sent, row, done: row !== undefined, storeMs: row?.number("now_ms") ?? 0 };
  }

  async #changeByTransaction(
    update: SlotUpdate,
    { holder, ...call }: { holder: SlotHolder } & QueryOptions,
  ): Promise<Written> {
    const { dialect } = this.#database;
    const statement = dialect.updateSlot({ ...update, inTransaction: true });
    const read = selectHeld(holder, { nowMillis: dialect.nowMillis, lock: {} });
    const moment = () => this.moment();
    let sent = moment();
    const script = function* (): ReturnType<TransactionScript<Row | undefined>> {
      sent = moment();
      yield statement;
      const { rows: [row] } = yield read;
      return row;
    };
    const row = await this.#database.transaction(script, call);
    if (row === undefined) return { sent, done: false, storeMs: 0 };
    const storeMs = row.number("now_ms");
    return { sent, row, done: true, storeMs, lastsMs: row.number("expires_at") - storeMs };
  }

  /** Sends a statement, and notes when the attempt was sent that was carried out. */
  async send(
    statement: Statement,
    call: QueryOptions,
  ): Promise<{ result: QueryResult; sent: Moment }> {
    let sent = this.moment();
    const result = await this.#database.retry(() => {
      sent = this.moment();
      return this.#database.query(statement, call);
    }, call);
    return { result, sent };
  }

  /** A holder's row as the primary has it now; undefined if it is no longer the holder's. */
  async readHeld(lease: SlotLeaseData, call: QueryOptions): Promise<Row | undefined> {
    const { dialect } = this.#database;
    const { nowMillis, lockRow } = dialect;
    const holder = this.holder(lease);
    if (lockRow === undefined) {
      const statement = selectHeld(holder, { nowMillis, lock: {} });
      return (await this.#readInTransaction(statement, call)).rows[0];
    }
    const statement = selectHeld(holder, { nowMillis, lock: lockRow });
    const { rows } = await this.#database.retry(
      () => this.#database.query(statement, call),
      call,
    );
    return rows[0];
  }

  /** A read without a lock; behind a proxy in a transaction, so that the primary answers it. */
  read(statement: Statement, call: QueryOptions): Promise<QueryResult> {
    if (this.byTransaction) return this.#readInTransaction(statement, call);
    return this.#database.retry(() => this.#database.query(statement, call), call);
  }

  async #readInTransaction(statement: Statement, call: QueryOptions): Promise<QueryResult> {
    if (!this.#database.hasTransactions) {
      return await this.#database.retry(() => this.#database.query(statement, call), call);
    }
    const script = function* (): ReturnType<TransactionScript<QueryResult>> {
      return yield statement;
    };
    return await this.#database.transaction(script, call);
  }

  /** Takes what an answer told of the store clock; 0 is none. */
  observe(
    { namespace, toleranceMs }: { readonly namespace: string; readonly toleranceMs: number },
    { storeMs, sent }: { storeMs: number; sent: Moment },
  ): void {
    const { runtime, onEvent } = this.#database;
    if (storeMs <= 0 || !Number.isSafeInteger(storeMs)) return;
    const receivedMs = runtime.monotonicMs();
    const byMs = Math.round(this.clock.observe({ storeMs, sentMs: sent.sentMs, receivedMs }));
    if (onEvent && Math.abs(byMs) > toleranceMs) {
      emit(onEvent, { type: "clockMoved", namespace, byMs });
    }
  }

  /** Whether a ceiling is bound, because no statement gives back the one that it writes. */
  get bindsCeiling(): boolean {
    return !this.#database.dialect.returnsSlots && !this.byTransaction;
  }

  /** What the clocks of this machine say. */
  moment(): Moment {
    const { runtime } = this.#database;
    return { sentMs: runtime.monotonicMs(), sentWallMs: runtime.wallMs() };
  }

  /** The row of a lease. */
  holder(
    { namespace, slot, fence, incarnation }: Omit<SlotHolder, "table">,
  ): SlotHolder {
    return { table: this.tables.slot, namespace, slot, fence, incarnation };
  }
}

/** The row that a statement returned, if it did. */
export function rowOf(
  { rows: [row] }: QueryResult,
  { nonce, call }: { nonce: bigint; call: QueryOptions },
): Row | undefined {
  if (row === undefined || (row.has("nonce") && row.bigint("nonce") === nonce)) return row;
  throw new StoreError(
    `Cannot run ${call.name}: the answer belongs to another statement, so the outcome of this one is ` +
      `unknown`,
    { kind: "other", statement: call.name, cause: undefined },
  );
}

/** From when, and for how long, a change confirms a lease. */
export function confirmationOf(
  { sent, lastsMs }: Pick<Written, "sent" | "lastsMs">,
  ttlMs: number,
): Confirmation {
  return { ...sent, lastsMs: lastsMs ?? ttlMs, written: true };
}

/** The window, the slot and the fence that a row holds. */
export function windowIn(
  row: Row,
): Pick<SlotLeaseData, "slot" | "fence" | "floorMs" | "ceilingMs"> {
  return {
    slot: row.number("slot"),
    fence: row.number("fence"),
    floorMs: row.number("floor_ms"),
    ceilingMs: row.number("ceiling_ms"),
  };
}

/** The error for what is refused though it reads as if it could be done. */
export function cannotTake(): ConfigurationError {
  return new ConfigurationError(
    "Cannot write slot: what is read does not agree with what is written: the connection is inside a " +
      "transaction of the application's, or reads are answered by a replica, for which see " +
      'fetchPlan "transaction"',
  );
}
