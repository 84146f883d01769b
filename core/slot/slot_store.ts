/**
 * Slot leases.
 *
 * A namespace has a fixed number of slots, and a slot has at most one holder by the database's clock. A
 * holder may stamp only the milliseconds of its window, and the windows of successive holders of a slot
 * do not overlap, whatever any clock does.
 *
 * ```text
 *                      floor                expires   ceiling
 *   holder A             |---- may stamp --------:--------|
 *   holder B                                               |---- may stamp ------:--------|
 *                                                        next floor of A
 *
 *                acquire             lost, or released
 *    (free) ────────────────→ held ────────────────────→ (free, expired, or another's)
 *                             ↑  │
 *                             ╰──╯ renew: the ceiling only rises
 * ```
 *
 * What the database decides: who holds a slot, until when, and the window; `now` is always its own.
 * What the process may believe: only numbers that a statement returned, or that it bound itself in a
 * statement that reported success. Its ceiling may lie below the row's, never above.
 *
 * What each operation sends, plan `statement`:
 *
 * - `acquire`: where one statement can pick a row and write it, that one. Else, or if it found none, a
 *   read of candidates, then one compare-and-set for each until one succeeds. A namespace that is new
 *   takes an insert of its row, and of its slots, in steps that can be repeated.
 * - `renew`, `release`: one update. If a renewal changed nothing, a locking read that tells why.
 * - `assertHeld`: one locking read in the application's transaction.
 * - `inspect`: one read.
 *
 * Plan `transaction`, for proxies that answer from elsewhere: each read in a transaction, and each update
 * in one with a read of the row, so that what is believed is what the primary holds.
 *
 * What can fail: a step of an acquire ends with an unknown outcome. Then the rows are read again, and
 * if one carries the incarnation of this acquire it is taken for acquired; if the write comes later
 * still, its slot is held by nobody until it expires. A renewal with an unknown outcome may be repeated,
 * and confirms nothing. A release with an unknown outcome may be repeated, with the same last use.
 *
 * The method is that of CosId's slot leases; fencing tokens are those of Gray and Cheriton's leases as
 * they are used since.
 *
 * @module
 */

import { checkCallOptions } from "../arguments.ts";
import { LeaseLostError, StoreClosedError } from "../errors.ts";
import { emit, type LeaseEvent } from "../events.ts";
import type { FetchPlan } from "../range/range_store.ts";
import { type CallOptions, Deadline } from "../runtime.ts";
import type { QueryOptions } from "../sql/client.ts";
import type { Database } from "../sql/database.ts";
import { isHeldBy } from "../sql/dialect.ts";
import type { Row } from "../sql/row.ts";
import { sql, type Statement } from "../sql/statement.ts";
import { type Acquired, SlotAcquire } from "./slot_acquire.ts";
import {
  type AcquireOptions,
  checkAcquire,
  checkLease,
  checkNamespace,
  checkRelease,
  checkRenewal,
  holdOptionNames,
  type HoldOptions,
  type ReleaseOptions,
  type Renewal,
  type Terms,
} from "./slot_arguments.ts";
import { SlotHold } from "./slot_hold.ts";
import {
  isSlotLease,
  lastUseOf,
  SlotLease,
  type SlotLeaseData,
  stampWindow,
} from "./slot_lease.ts";
import { cannotTake, type Confirmation, confirmationOf, SlotRows } from "./slot_rows.ts";
import { releasing, renewing, selectNamespace, type SlotTables } from "./slot_statements.ts";

/** What a slot is at the moment. */
export interface SlotState {
  /** The slot. */
  readonly slot: number;
  /** Whether somebody holds it, its lease has expired, or it is free. */
  readonly state: "expired" | "free" | "held";
  /** Who holds it, or held it until its lease expired. */
  readonly ownerKey: string | undefined;
  /** Who held it last. */
  readonly lastOwnerKey: string | undefined;
  /** How often it was acquired. */
  readonly fence: number;
  /** When the last lease expires or expired, in milliseconds since 1970-01-01 UTC. */
  readonly expiresAtMs: number;
  /** The first millisecond of the last holder's window. */
  readonly floorMs: number;
  /** The last millisecond of the last holder's window. */
  readonly ceilingMs: number;
  /** The first millisecond of the next holder's window. */
  readonly nextFloorMs: number;
}

/** What a namespace is at the moment. */
export interface NamespaceState {
  /** The namespace. */
  readonly namespace: string;
  /** How many slots it has. */
  readonly limit: number;
  /** Its tolerance, in milliseconds. */
  readonly toleranceMs: number;
  /** The database's clock, in milliseconds since 1970-01-01 UTC. */
  readonly nowMs: number;
  /** Its slots, in their order; fewer than `limit` as long as not all were needed. */
  readonly slots: readonly SlotState[];
}

/**
 * Slot leases over a table of slots and one of namespaces. A store has one as `store.slots`.
 *
 * @example
 * ```ts
 * import { openStore } from "@fencepost/store";
 *
 * await using store = await openStore("sqlite::memory:", { initSchema: true });
 * await using hold = await store.slots.hold({ namespace: "workers", limit: 16 });
 * console.log(hold.held, hold.lease.fence); // true 1
 * ```
 */
export class SlotStore {
  readonly #database: Database;
  readonly #rows: SlotRows;
  readonly #acquirer: SlotAcquire;
  /** Looks for the tables again, if they were not there when the store was opened. */
  #prepare: ((deadline: Deadline) => Promise<void>) | undefined;
  readonly #holds = new Set<SlotHold>();
  readonly #opening = new Set<Promise<SlotHold>>();

  /**
   * Used by the store.
   *
   * @param database The client and its dialect.
   * @param options The tables, how they are reached, and what makes sure that they are there.
   */
  constructor(
    database: Database,
    options: {
      tables: SlotTables;
      fetchPlan: FetchPlan;
      prepare: ((deadline: Deadline) => Promise<void>) | undefined;
    },
  ) {
    this.#database = database;
    this.#rows = new SlotRows(database, {
      tables: options.tables,
      byTransaction: options.fetchPlan === "transaction",
    });
    this.#acquirer = new SlotAcquire(database, this.#rows);
    this.#prepare = options.prepare;
  }

  /**
   * Takes a free slot of a namespace, for `ttlMs`. To keep it, see `hold`.
   *
   * The owner key's own slot comes first, then the preferred one, then the one that it held last, then
   * any other.
   *
   * @param options The namespace, its limit, and the terms of the lease.
   * @throws {SlotsExhaustedError} If no slot is free; it tells when the next one is.
   * @throws {NamespaceConflictError} If the namespace has another limit or tolerance.
   * @throws {TimeoutError} If it did not end in time; a slot may be taken until it expires.
   * @throws {StoreError} If the database or the driver failed; as for a timeout.
   * @throws {SchemaError} If a table is missing, or lacks a column.
   * @throws {InTransactionError} If it would run inside a transaction of the application's.
   * @throws {InvalidArgumentError} If an option is not allowed; nothing was sent.
   */
  async acquire(options: AcquireOptions): Promise<SlotLease> {
    const { dialect, runtime } = this.#database;
    const uuid = () => runtime.uuid();
    const terms = checkAcquire("acquire slot", options, { dialect, uuid });
    return (await this.#acquire(terms, options)).lease;
  }

  /**
   * Takes a free slot, as `acquire` does, and keeps it renewed until it is released. Keeps no process
   * alive.
   *
   * @param options The namespace, its limit, the terms of the lease, and how it is renewed.
   * @throws As `acquire` does.
   */
  async hold(options: HoldOptions): Promise<SlotHold> {
    const action = "hold slot";
    const { dialect, runtime } = this.#database;
    const uuid = () => runtime.uuid();
    const terms = checkAcquire(action, options, { dialect, names: holdOptionNames, uuid });
    const { timeoutMs } = this.#database;
    const renewal = checkRenewal(action, options, { ttlMs: terms.ttlMs, timeoutMs });
    const opening = this.#acquire(terms, options).then((acquired) => this.#keep(acquired, renewal));
    this.#opening.add(opening);
    try {
      return await opening;
    } finally {
      this.#opening.delete(opening);
    }
  }

  /** Makes a hold of what was acquired, unless the store was closed meanwhile. */
  async #keep({ lease, confirmed }: Acquired, renewal: Renewal): Promise<SlotHold> {
    const { runtime, onEvent, timeoutMs } = this.#database;
    if (this.#database.closing) {
      const deadline = new Deadline(runtime, { timeoutMs });
      await this.#release(lease, lease.floorMs - 1, deadline).catch(() => {});
      throw new StoreClosedError();
    }
    const hold = new SlotHold(lease, {
      ...renewal,
      confirmed,
      runtime,
      onEvent,
      clock: this.#rows.clock,
      renew: (deadline) => this.#renew(lease, deadline),
      release: (lastUsedMs, deadline) => this.#release(lease, lastUsedMs, deadline),
      deadline: (call) => this.#database.deadline(call),
      ended: () => this.#holds.delete(hold),
    });
    this.#holds.add(hold);
    return hold;
  }

  /**
   * Renews a lease for its `ttlMs` from now on. A lease that has expired can be renewed as long as nobody
   * took its slot.
   *
   * @param lease The lease, or its data as `JSON.parse` gives it.
   * @param options How long the call may take.
   * @returns The lease, with its new ceiling: the same object, unless it was given as data.
   * @throws {LeaseLostError} If another holds the slot, or it was released.
   * @throws {TimeoutError} If it did not end in time; it can be repeated.
   * @throws {StoreError} If the database or the driver failed; it can be repeated.
   * @throws {InTransactionError} If it would run inside a transaction of the application's.
   * @throws {InvalidArgumentError} If an argument is not allowed; nothing was sent.
   */
  async renew(lease: SlotLease | SlotLeaseData, options: CallOptions = {}): Promise<SlotLease> {
    const action = "renew lease";
    const data = checkLease(action, lease, this.#database.dialect);
    checkCallOptions(action, options);
    const renewed = isSlotLease(lease) ? lease : new SlotLease(data);
    const deadline = this.#database.deadline(options);
    await this.#ready(deadline);
    await this.#renew(renewed, deadline);
    return renewed;
  }

  /**
   * Frees a slot. Nothing is stamped from the lease afterwards, whatever the outcome. A lease that was
   * released or replaced already stays as it is.
   *
   * @param lease The lease, or its data as `JSON.parse` gives it.
   * @param options What was stamped last, where that is not known, and how long the call may take.
   * @throws {TimeoutError} If it did not end in time; it can be repeated.
   * @throws {StoreError} If the database or the driver failed; it can be repeated.
   * @throws {InTransactionError} If it would run inside a transaction of the application's.
   * @throws {InvalidArgumentError} If an argument is not allowed; nothing was sent.
   */
  async release(lease: SlotLease | SlotLeaseData, options: ReleaseOptions = {}): Promise<void> {
    const action = "release lease";
    const data = checkLease(action, lease, this.#database.dialect);
    const stampedMs = checkRelease(action, options, data);
    const released = isSlotLease(lease) ? lease : new SlotLease(data);
    const lastUsedMs = lastUseOf(released, stampedMs);
    const deadline = this.#database.deadline(options);
    await this.#ready(deadline);
    await this.#release(released, lastUsedMs, deadline);
  }

  /**
   * Makes sure, inside a transaction of the application's, that a lease is still its holder's: nobody
   * else takes the slot before that transaction has ended. A renewal waits for it too, so it has to be
   * shorter than the lease is trusted.
   *
   * @param lease The lease, or its data as `JSON.parse` gives it.
   * @param transaction The driver's own handle of the transaction: for postgres.js and PGlite what
   * `begin` or `transaction` gives to its callback, for pg, mysql2 and node:sqlite the connection, for
   * mssql the `Transaction`.
   * @param options How long the call may take.
   * @throws {LeaseLostError} If another holds the slot, or it was released.
   * @throws {ConfigurationError} If it is no transaction of the driver's.
   * @throws {TimeoutError} If it did not end in time; roll the transaction back.
   * @throws {StoreError} If the database or the driver failed; roll the transaction back.
   * @throws {InvalidArgumentError} If the lease is none; nothing was sent.
   */
  async assertHeld(
    lease: SlotLease | SlotLeaseData,
    transaction: unknown,
    options: CallOptions = {},
  ): Promise<void> {
    const action = "assert lease";
    const data = checkLease(action, lease, this.#database.dialect);
    checkCallOptions(action, options);
    const call = { name: "slot.assert", deadline: this.#database.deadline(options) };
    const held = await this.#database.inside(
      transaction,
      (session) => this.#database.dialect.assertSlot(session, this.#rows.holder(data)),
      call,
    );
    if (!held) throw new LeaseLostError(action, { ...data, reason: "replaced" });
  }

  /**
   * Reads a namespace and its slots, for operators.
   *
   * @param namespace The namespace.
   * @param options How long the call may take.
   * @returns What it is; undefined if nobody has acquired a slot of it yet.
   * @throws {TimeoutError} If it did not end in time.
   * @throws {StoreError} If the database or the driver failed.
   * @throws {InvalidArgumentError} If an argument is not allowed; nothing was sent.
   */
  async inspect(namespace: string, options: CallOptions = {}): Promise<NamespaceState | undefined> {
    const action = "inspect namespace";
    const { dialect } = this.#database;
    checkNamespace(action, namespace, dialect);
    checkCallOptions(action, options);
    const deadline = this.#database.deadline(options);
    await this.#ready(deadline);
    const statement = selectNamespace(this.#rows.tables, namespace, dialect.nowMillis);
    const { rows } = await this.#rows.read(statement, { name: "slot.inspect", deadline });
    const [first] = rows;
    if (first === undefined) return undefined;
    const nowMs = first.number("now_ms");
    return {
      namespace,
      limit: first.number("slot_limit"),
      toleranceMs: first.number("tolerance_ms"),
      nowMs,
      slots: rows.filter((row) => !row.isNull("slot")).map((row) => stateOf(row, nowMs)),
    };
  }

  /** Releases every live hold, also those that are just being opened, for a store that closes. */
  async releaseAll(): Promise<void> {
    const released = [...this.#holds].map((hold) => hold[Symbol.asyncDispose]());
    await Promise.allSettled([...released, ...this.#opening]);
  }

  async #acquire(terms: Terms, options: CallOptions): Promise<Acquired> {
    const { runtime, onEvent } = this.#database;
    const deadline = this.#database.deadline(options);
    const startedMs = runtime.monotonicMs();
    await this.#ready(deadline);
    const acquired = await this.#acquirer.acquire(terms, deadline);
    if (onEvent) {
      const { namespace, slot, fence } = acquired.lease;
      const durationMs = runtime.monotonicMs() - startedMs;
      emit(onEvent, { type: "acquire", namespace, slot, fence, durationMs });
    }
    return acquired;
  }

  async #renew(lease: SlotLease, deadline: Deadline): Promise<Confirmation> {
    const { runtime, onEvent } = this.#database;
    const call = { name: "slot.renew", deadline };
    const ceilingMs = this.#rows.bindsCeiling
      ? await this.#nextCeiling(lease, deadline)
      : undefined;
    const holder = this.#rows.holder(lease);
    const change = {
      set: (now: Statement) => renewing(now, lease, ceilingMs),
      where: () => isHeldBy(holder),
    };
    const written = await this.#rows.change(change, { holder, ...call });
    if (!written.done) return await this.#reason(lease, call);
    this.#rows.observe(lease, written);
    // The row's own, or what was bound and is now known to be written.
    stampWindow(lease).raise(written.row?.number("ceiling_ms") ?? ceilingMs ?? 0);
    if (onEvent) {
      const durationMs = runtime.monotonicMs() - written.sent.sentMs;
      emit(onEvent, { type: "renew", ...nameOf(lease), durationMs });
    }
    return confirmationOf(written, lease.ttlMs);
  }

  /** Why a renewal changed nothing: the lease is lost, or the row is the holder's all the same. */
  async #reason(lease: SlotLease, call: QueryOptions): Promise<Confirmation> {
    const sent = this.#rows.moment();
    const row = await this.#rows.readHeld(lease, call);
    if (row === undefined) {
      throw new LeaseLostError("renew lease", { ...nameOf(lease), reason: "replaced" });
    }
    const nowMs = row.number("now_ms");
    this.#rows.observe(lease, { storeMs: nowMs, sent });
    stampWindow(lease).raise(row.number("ceiling_ms"));
    return { ...sent, lastsMs: row.number("expires_at") - nowMs, written: false };
  }

  /** The ceiling that a renewal binds, where it cannot return one. */
  async #nextCeiling(lease: SlotLease, deadline: Deadline): Promise<number> {
    const { runtime, dialect } = this.#database;
    if (this.#rows.clock.estimate(runtime.monotonicMs()) === undefined) {
      const sent = this.#rows.moment();
      const call = { name: "slot.clock", deadline };
      const { rows: [row] } = await this.#rows.read(
        sql`select ${dialect.nowMillis} as now_ms`,
        call,
      );
      this.#rows.observe(lease, { storeMs: row?.number("now_ms") ?? 0, sent });
    }
    const nowMs = this.#rows.clock.estimate(runtime.monotonicMs()) ?? 0;
    return nowMs + lease.ttlMs + lease.toleranceMs;
  }

  async #release(
    lease: SlotLease,
    lastUsedMs: number | undefined,
    deadline: Deadline,
  ): Promise<void> {
    const { onEvent } = this.#database;
    const call = { name: "slot.release", deadline };
    const holder = this.#rows.holder(lease);
    const change = { set: () => releasing(lastUsedMs), where: () => isHeldBy(holder) };
    const { done } = await this.#rows.change(change, { holder, ...call });
    // In a transaction the row was read behind the update, and is to be the holder's no longer.
    const released = this.#rows.byTransaction ? !done : done;
    // Released or replaced already, or refused.
    if (!released && await this.#rows.readHeld(lease, call) !== undefined) throw cannotTake();
    if (released && onEvent) emit(onEvent, { type: "released", ...nameOf(lease) });
  }

  /** Makes sure that the tables are there. */
  async #ready(deadline: Deadline): Promise<void> {
    await this.#prepare?.(deadline);
    this.#prepare = undefined;
  }
}

function nameOf({ namespace, slot, fence }: SlotLeaseData): LeaseEvent {
  return { namespace, slot, fence };
}

function stateOf(row: Row, nowMs: number): SlotState {
  const ownerKey = row.isNull("owner_key") ? undefined : row.text("owner_key");
  const expiresAtMs = row.number("expires_at");
  return {
    slot: row.number("slot"),
    state: ownerKey === undefined ? "free" : expiresAtMs <= nowMs ? "expired" : "held",
    ownerKey,
    lastOwnerKey: row.isNull("last_owner_key") ? undefined : row.text("last_owner_key"),
    fence: row.number("fence"),
    expiresAtMs,
    floorMs: row.number("floor_ms"),
    ceilingMs: row.number("ceiling_ms"),
    nextFloorMs: row.number("next_floor_ms"),
  };
}
