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
import {
  ConfigurationError,
  LeaseLostError,
  NamespaceConflictError,
  SlotsExhaustedError,
  StoreClosedError,
  StoreError,
} from "../errors.ts";
import { emit, type LeaseEvent } from "../events.ts";
import type { FetchPlan } from "../range/range_store.ts";
import { backoffMs, maxAttempts } from "../retry.ts";
import { type CallOptions, Deadline } from "../runtime.ts";
import type { QueryOptions, TransactionScript } from "../sql/client.ts";
import type { Database } from "../sql/database.ts";
import { isHeldBy, type SlotHolder, type SlotUpdate } from "../sql/dialect.ts";
import type { QueryResult, Row } from "../sql/row.ts";
import { sql, type Statement } from "../sql/statement.ts";
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
import {
  type AcquireRequest,
  acquiring,
  type Candidate,
  insertNamespace,
  insertSlots,
  isCandidate,
  isSettled,
  isUntouched,
  isVacant,
  preference,
  provisionStep,
  releasing,
  renewing,
  selectCandidates,
  selectHeld,
  selectNamespace,
  shuffleOf,
  type SlotTables,
} from "./slot_statements.ts";
import { StoreClock } from "./store_clock.ts";

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

/** How many candidates one read gives. */
const candidateCount = 16;

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
  readonly #tables: SlotTables;
  readonly #byTransaction: boolean;
  /** Looks for the tables again, if they were not there when the store was opened. */
  #prepare: ((deadline: Deadline) => Promise<void>) | undefined;
  readonly #clock = new StoreClock();
  readonly #holds = new Set<SlotHold>();
  readonly #opening = new Set<Promise<SlotHold>>();
  /** The rows of each namespace are inserted by one call at a time. */
  readonly #provisioning = new Map<string, Promise<void>>();
  #nonce: bigint;

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
    this.#tables = options.tables;
    this.#byTransaction = options.fetchPlan === "transaction";
    this.#prepare = options.prepare;
    this.#nonce = BigInt(Math.floor(database.runtime.random() * 2 ** 53));
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
      clock: this.#clock,
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
    checkRelease(action, options, data);
    const released = isSlotLease(lease) ? lease : new SlotLease(data);
    const lastUsedMs = lastUseOf(released, options.lastUsedMs);
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
      (session) => this.#database.dialect.assertSlot(session, this.#holder(data)),
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
    const statement = selectNamespace(this.#tables, namespace, dialect.nowMillis);
    const { rows } = await this.#read(statement, { name: "slot.inspect", deadline });
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
    const request: AcquireRequest = { ...terms, incarnation: runtime.uuid() };
    const taken = await this.#take(request, deadline);
    const acquired = "lease" in taken
      ? taken
      : await this.#choose(request, { deadline, failure: taken.failure });
    if (onEvent) {
      const { namespace, slot, fence } = acquired.lease;
      const durationMs = runtime.monotonicMs() - startedMs;
      emit(onEvent, { type: "acquire", namespace, slot, fence, durationMs });
    }
    return acquired;
  }

  /**
   * Acquires in one statement, where the dialect can and a slot is there that nobody holds or picks. An own
   * slot that is still held comes first, and is not taken so: then nothing is.
   */
  async #take(request: AcquireRequest, deadline: Deadline): Promise<Acquired | Missed> {
    const { dialect, runtime } = this.#database;
    if (dialect.takeSlot === undefined || this.#byTransaction) return missed;
    const nonce = ++this.#nonce;
    const { namespace } = request;
    const statement = dialect.takeSlot({
      table: this.#tables.slot,
      candidates: (now) => sql`namespace = ${namespace} and ${isCandidate(now, request)}`,
      order: preference(request, { shuffle: shuffleOf(() => runtime.random()), dialect }),
      settled: isSettled(this.#tables, request),
      set: (now) => acquiring(now, request, undefined),
      where: (now) => sql`namespace = ${namespace} and ${isVacant(now, request)}`,
      nonce,
    });
    const call = { name: "slot.acquire", deadline };
    return await this.#step(async () => {
      const { result, sent } = await this.#send(statement, call);
      const row = rowOf(result, { nonce, call });
      return row === undefined ? missed : this.#acquired(request, row, { sent });
    });
  }

  /** Acquires by reading candidates, and trying one after the other. */
  async #choose(
    asked: AcquireRequest,
    { deadline, failure }: { deadline: Deadline; failure: unknown },
  ): Promise<Acquired> {
    const { runtime } = this.#database;
    let request = asked;
    let [failed, failures, stuck, settling] = [failure, failure === undefined ? 0 : 1, 0, 0];
    let refused: readonly Candidate[] = [];
    for (;;) {
      if (failures === maxAttempts) throw failed;
      const view = await this.#view(request, deadline).catch((error) => {
        // Only what came before may have written something: then the answer has to be waited for.
        if (failures === 0 || !isUnknown(error)) throw error;
        failed = error;
      });
      if (view === undefined) {
        await deadline.sleep(backoffMs(runtime, ++failures), "slot.candidates");
        continue;
      }
      if (view.mine === "expired") {
        // It came so late that others may have it: it is taken anew, as any other.
        request = { ...asked, incarnation: runtime.uuid() };
        continue;
      }
      if (view.mine !== undefined) return view.mine;
      if (view.unsettled) {
        // The namespace and its slots take one turn each, and more only if others do the same.
        if (settling === maxAttempts) throw cannotTake();
        if (settling > 1) await deadline.sleep(backoffMs(runtime, settling), "slot.candidates");
        settling++;
        await this.#settle(request, { view, deadline });
        continue;
      }
      if (view.candidates.length === 0) throw new SlotsExhaustedError(request.namespace, view);
      if (refused.some((one) => view.candidates.some((other) => isSame(one, other)))) {
        // What was free, and is as it was, could not be taken.
        if (++stuck === maxStuck) throw cannotTake();
        await deadline.sleep(backoffMs(runtime, stuck), "slot.candidates");
      }
      refused = view.candidates;
      for (const candidate of view.candidates) {
        const outcome = await this.#try(request, { candidate, view, deadline });
        if ("lease" in outcome) return outcome;
        if (outcome.failure === undefined) continue;
        // Only a read can tell whether it was written: the next candidate would be a second slot.
        [failed, refused] = [outcome.failure, []];
        failures++;
        break;
      }
    }
  }

  /** One compare-and-set of a row as it was read. */
  #try(
    request: AcquireRequest,
    { candidate, view, deadline }: { candidate: Candidate; view: View; deadline: Deadline },
  ): Promise<Acquired | Missed> {
    const { slot, fence, nextFloorMs: floorMs } = candidate;
    const ceilingMs = Math.max(floorMs, view.nowMs + request.ttlMs) + request.toleranceMs;
    const holder = this.#holder({ ...request, slot, fence: fence + 1 });
    const change = {
      set: (now: Statement) => acquiring(now, request, this.#bindsCeiling ? ceilingMs : undefined),
      where: (now: Statement) => isUntouched(now, request, candidate),
    };
    return this.#step(async () => {
      const written = await this.#change(change, { holder, name: "slot.acquire", deadline });
      if (!written.done) return missed;
      const { row } = written;
      if (row !== undefined) return this.#acquired(request, row, written);
      this.#observe(request, written);
      const data = { ...request, slot, fence: fence + 1, floorMs, ceilingMs };
      return acquiredOf(data, confirmationOf(written, request.ttlMs));
    });
  }

  /** What was acquired, of the row that a statement returned. */
  #acquired(
    request: AcquireRequest,
    row: Row,
    written: Pick<Written, "sent" | "lastsMs">,
  ): Acquired {
    this.#observe(request, { storeMs: row.number("now_ms"), sent: written.sent });
    return acquiredOf({ ...request, ...windowIn(row) }, confirmationOf(written, request.ttlMs));
  }

  /** One step of an acquire. What may have been written is not thrown. */
  async #step(work: () => Promise<Acquired | Missed>): Promise<Acquired | Missed> {
    try {
      return await work();
    } catch (error) {
      if (!isUnknown(error)) throw error;
      return { failure: error };
    }
  }

  /** Reads what can be acquired, and whether this acquire has a slot already. */
  async #view(request: AcquireRequest, deadline: Deadline): Promise<View> {
    const { dialect, runtime } = this.#database;
    const { namespace, limit, toleranceMs } = request;
    const statement = selectCandidates(this.#tables, request, {
      dialect,
      shuffle: shuffleOf(() => runtime.random()),
      count: candidateCount,
    });
    const sent = this.#moment();
    const { rows } = await this.#read(statement, { name: "slot.candidates", deadline });
    const [first] = rows;
    if (first === undefined) throw new ConfigurationError(strangeAnswer);
    const nowMs = first.number("now_ms");
    this.#observe(request, { storeMs: nowMs, sent });
    const decided = rows.filter((row) => !row.isNull("slot_limit"));
    for (const row of decided) {
      const is = { limit: row.number("slot_limit"), toleranceMs: row.number("tolerance_ms") };
      if (is.limit !== limit || is.toleranceMs !== toleranceMs) {
        throw new NamespaceConflictError(namespace, { ...is, asked: { limit, toleranceMs } });
      }
    }
    const provisioned = first.number("provisioned");
    if (provisioned > limit) {
      throw new ConfigurationError(
        `Cannot acquire slot: table ${this.#tables.slot} has several rows of one slot, its primary ` +
          `key must be namespace and slot: received ${provisioned} rows for ${limit} slots`,
      );
    }
    const slots = rows.filter((row) => !row.isNull("slot"));
    const mine = slots.find((row) => row.boolean("mine"));
    return {
      nowMs,
      limit,
      nextFreeMs: first.isNull("next_free_ms") ? nowMs : first.number("next_free_ms"),
      unsettled: decided.length === 0 ? "namespace" : provisioned < limit ? "slots" : undefined,
      mine: mine && foundIn(mine, { request, sent, nowMs }),
      candidates: slots.map((row) => ({
        slot: row.number("slot"),
        fence: row.number("fence"),
        nextFloorMs: row.number("next_floor_ms"),
      })),
    };
  }

  /** Decides what the namespace is, or inserts its rows. What others have done meanwhile is read next. */
  async #settle(
    request: AcquireRequest,
    { view, deadline }: { view: View; deadline: Deadline },
  ): Promise<void> {
    if (view.unsettled === "namespace") {
      await this.#insert(insertNamespace(this.#tables, request), {
        name: "slot.namespace",
        deadline,
      });
      return;
    }
    const { namespace, limit } = request;
    const running = this.#provisioning.get(namespace);
    if (running !== undefined) {
      // Its failure is its caller's; this one looks again.
      await deadline.race("slot.provision", running.catch(() => {}));
      return;
    }
    const provisioning = this.#provision(namespace, { limit, deadline });
    this.#provisioning.set(namespace, provisioning);
    try {
      await provisioning;
    } finally {
      this.#provisioning.delete(namespace);
    }
  }

  async #provision(
    namespace: string,
    { limit, deadline }: { limit: number; deadline: Deadline },
  ): Promise<void> {
    const call = { name: "slot.provision", deadline };
    for (let from = 0; from < limit; from += provisionStep) {
      const range = { from, to: Math.min(limit, from + provisionStep) };
      const statement = insertSlots(this.#tables, namespace, range);
      for (let attempt = 1; !await this.#insert(statement, call); attempt++) {
        await deadline.sleep(backoffMs(this.#database.runtime, attempt), call.name);
      }
    }
  }

  /** Whether it inserted what was missing, and did not meet somebody who was just doing so. */
  async #insert(statement: Statement, call: QueryOptions): Promise<boolean> {
    try {
      await this.#database.retry(() => this.#database.query(statement, call), call);
      return true;
    } catch (error) {
      if (error instanceof StoreError && error.kind === "duplicate") return false;
      throw error;
    }
  }

  async #renew(lease: SlotLease, deadline: Deadline): Promise<Confirmation> {
    const { runtime, onEvent } = this.#database;
    const call = { name: "slot.renew", deadline };
    const ceilingMs = this.#bindsCeiling ? await this.#nextCeiling(lease, deadline) : undefined;
    const holder = this.#holder(lease);
    const change = {
      set: (now: Statement) => renewing(now, lease, ceilingMs),
      where: () => isHeldBy(holder),
    };
    const written = await this.#change(change, { holder, ...call });
    if (!written.done) return await this.#reason(lease, call);
    this.#observe(lease, written);
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
    const sent = this.#moment();
    const row = await this.#readHeld(lease, call);
    if (row === undefined) {
      throw new LeaseLostError("renew lease", { ...nameOf(lease), reason: "replaced" });
    }
    const nowMs = row.number("now_ms");
    this.#observe(lease, { storeMs: nowMs, sent });
    stampWindow(lease).raise(row.number("ceiling_ms"));
    return { ...sent, lastsMs: row.number("expires_at") - nowMs, written: false };
  }

  /** The ceiling that a renewal binds, where it cannot return one. */
  async #nextCeiling(lease: SlotLease, deadline: Deadline): Promise<number> {
    const { runtime, dialect } = this.#database;
    if (this.#clock.estimate(runtime.monotonicMs()) === undefined) {
      const sent = this.#moment();
      const call = { name: "slot.clock", deadline };
      const { rows: [row] } = await this.#read(sql`select ${dialect.nowMillis} as now_ms`, call);
      this.#observe(lease, { storeMs: row?.number("now_ms") ?? 0, sent });
    }
    const nowMs = this.#clock.estimate(runtime.monotonicMs()) ?? 0;
    return Math.max(lease.ceilingMs, nowMs + lease.ttlMs + lease.toleranceMs);
  }

  async #release(
    lease: SlotLease,
    lastUsedMs: number | undefined,
    deadline: Deadline,
  ): Promise<void> {
    const { onEvent } = this.#database;
    const call = { name: "slot.release", deadline };
    const holder = this.#holder(lease);
    const change = { set: () => releasing(lastUsedMs), where: () => isHeldBy(holder) };
    const { done } = await this.#change(change, { holder, ...call });
    // In a transaction the row was read behind the update, and is to be the holder's no longer.
    const released = this.#byTransaction ? !done : done;
    // Released or replaced already, or refused.
    if (!released && await this.#readHeld(lease, call) !== undefined) throw cannotTake();
    if (released && onEvent) emit(onEvent, { type: "released", ...nameOf(lease) });
  }

  /** Changes a holder's row, and tells whether it is the holder's then. */
  async #change(
    change: Pick<SlotUpdate, "set" | "where">,
    { holder, ...call }: { holder: SlotHolder } & QueryOptions,
  ): Promise<Written> {
    const { dialect } = this.#database;
    const nonce = ++this.#nonce;
    const update = { ...change, table: this.#tables.slot, nonce };
    if (this.#byTransaction) return await this.#changeByTransaction(update, { holder, ...call });
    const { result, sent } = await this.#send(dialect.updateSlot(update), call);
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
    const moment = () => this.#moment();
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
  async #send(
    statement: Statement,
    call: QueryOptions,
  ): Promise<{ result: QueryResult; sent: Moment }> {
    let sent = this.#moment();
    const result = await this.#database.retry(() => {
      sent = this.#moment();
      return this.#database.query(statement, call);
    }, call);
    return { result, sent };
  }

  /** A holder's row as the primary has it now; undefined if it is no longer the holder's. */
  async #readHeld(lease: SlotLeaseData, call: QueryOptions): Promise<Row | undefined> {
    const { dialect } = this.#database;
    const { nowMillis, lockRow } = dialect;
    const holder = this.#holder(lease);
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
  #read(statement: Statement, call: QueryOptions): Promise<QueryResult> {
    if (this.#byTransaction) return this.#readInTransaction(statement, call);
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
  #observe(
    { namespace, toleranceMs }: { readonly namespace: string; readonly toleranceMs: number },
    { storeMs, sent }: { storeMs: number; sent: Moment },
  ): void {
    const { runtime, onEvent } = this.#database;
    if (storeMs <= 0 || !Number.isSafeInteger(storeMs)) return;
    const receivedMs = runtime.monotonicMs();
    const byMs = Math.round(this.#clock.observe({ storeMs, sentMs: sent.sentMs, receivedMs }));
    if (onEvent && Math.abs(byMs) > toleranceMs) {
      emit(onEvent, { type: "clockMoved", namespace, byMs });
    }
  }

  /** Whether a ceiling is bound, because no statement gives back the one that it writes. */
  get #bindsCeiling(): boolean {
    return !this.#database.dialect.returnsSlots && !this.#byTransaction;
  }

  #moment(): Moment {
    const { runtime } = this.#database;
    return { sentMs: runtime.monotonicMs(), sentWallMs: runtime.wallMs() };
  }

  #holder(
    { namespace, slot, fence, incarnation }: Omit<SlotHolder, "table">,
  ): SlotHolder {
    return { table: this.#tables.slot, namespace, slot, fence, incarnation };
  }

  /** Makes sure that the tables are there. */
  async #ready(deadline: Deadline): Promise<void> {
    await this.#prepare?.(deadline);
    this.#prepare = undefined;
  }
}

/** When a statement was sent. */
type Moment = Pick<Confirmation, "sentMs" | "sentWallMs">;

interface Acquired {
  readonly lease: SlotLease;
  readonly confirmed: Confirmation;
}

/** Nothing was acquired; or, with a failure, it is not known. */
interface Missed {
  readonly failure: unknown;
}

/** What became of a change of a holder's row. */
interface Written {
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

/** What a read of candidates told. */
interface View {
  readonly nowMs: number;
  readonly limit: number;
  readonly nextFreeMs: number;
  /** What the namespace lacks. */
  readonly unsettled: "namespace" | "slots" | undefined;
  /** What this acquire has already. */
  readonly mine: Acquired | "expired" | undefined;
  readonly candidates: readonly Candidate[];
}

const missed: Missed = { failure: undefined };

/** How often what seems free may be refused before that is an error. */
const maxStuck = 5;

const strangeAnswer = "Cannot acquire slot: the answer belongs to another statement";

function cannotTake(): ConfigurationError {
  return new ConfigurationError(
    "Cannot write slot: what is read does not agree with what is written: the connection is inside a " +
      "transaction of the application's, or reads are answered by a replica, for which see " +
      'fetchPlan "transaction"',
  );
}

/** The row that a statement returned, if it did. */
function rowOf(
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
function confirmationOf(
  { sent, lastsMs }: Pick<Written, "sent" | "lastsMs">,
  ttlMs: number,
): Confirmation {
  return { ...sent, lastsMs: lastsMs ?? ttlMs, written: true };
}

function windowIn(row: Row): Pick<SlotLeaseData, "slot" | "fence" | "floorMs" | "ceilingMs"> {
  return {
    slot: row.number("slot"),
    fence: row.number("fence"),
    floorMs: row.number("floor_ms"),
    ceilingMs: row.number("ceiling_ms"),
  };
}

function acquiredOf(data: SlotLeaseData, confirmed: Confirmation): Acquired {
  return { lease: new SlotLease(data), confirmed };
}

/** What was acquired, of the row that a read found; or that its lease has expired meanwhile. */
function foundIn(
  row: Row,
  { request, sent, nowMs }: { request: AcquireRequest; sent: Moment; nowMs: number },
): Acquired | "expired" {
  const lastsMs = row.number("expires_at") - nowMs;
  if (lastsMs <= 0) return "expired";
  return acquiredOf({ ...request, ...windowIn(row) }, { ...sent, lastsMs, written: false });
}

function isSame(one: Candidate, other: Candidate): boolean {
  return one.slot === other.slot && one.fence === other.fence &&
    one.nextFloorMs === other.nextFloorMs;
}

/** Whether a statement that failed so may have been carried out. */
function isUnknown(error: unknown): boolean {
  return error instanceof StoreError && (error.kind === "connection" || error.kind === "other");
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
