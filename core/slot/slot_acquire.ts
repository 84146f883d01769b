/**
 * How a slot is acquired.
 *
 * Where one statement can pick a row and write it, that one is tried first. Else, or if it found none, the
 * rows are read: the candidates of a random order, so that a herd spreads, behind those that the caller
 * would rather have. Then each is tried by one compare-and-set, until one succeeds:
 *
 * ```text
 *   read ─┬─ carries this incarnation: acquired already, by a step whose answer was lost
 *         ├─ no namespace, or rows missing: insert, and read again
 *         ├─ no candidate: SlotsExhaustedError
 *         └─ candidates ── compare-and-set ─┬─ written: acquired
 *                                           ├─ not written: the next one, then read again
 *                                           ╰─ not known: read again, none is skipped
 * ```
 *
 * @module
 */

import {
  ConfigurationError,
  NamespaceConflictError,
  SlotsExhaustedError,
  StoreError,
} from "../errors.ts";
import { backoffMs, maxAttempts } from "../retry.ts";
import type { Deadline } from "../runtime.ts";
import type { QueryOptions } from "../sql/client.ts";
import type { Database } from "../sql/database.ts";
import type { Row } from "../sql/row.ts";
import { sql, type Statement } from "../sql/statement.ts";
import type { Terms } from "./slot_arguments.ts";
import { SlotLease, type SlotLeaseData } from "./slot_lease.ts";
import {
  cannotTake,
  type Confirmation,
  confirmationOf,
  type Moment,
  rowOf,
  type SlotRows,
  windowIn,
  type Written,
} from "./slot_rows.ts";
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
  selectCandidates,
  shuffleOf,
} from "./slot_statements.ts";

/** What was acquired. */
export interface Acquired {
  readonly lease: SlotLease;
  readonly confirmed: Confirmation;
}

/** Nothing was acquired; or, with a failure, it is not known. */
interface Missed {
  readonly failure: unknown;
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

/** How many candidates one read gives. */
const candidateCount = 16;

const missed: Missed = { failure: undefined };

/** How often what seems free may be refused before that is an error. */
const maxStuck = 5;

const strangeAnswer = "Cannot acquire slot: the answer belongs to another statement";

/** Acquires slots. */
export class SlotAcquire {
  readonly #database: Database;
  readonly #rows: SlotRows;
  /** The rows of each namespace are inserted by one call at a time. */
  readonly #provisioning = new Map<string, Promise<void>>();

  /**
   * Makes one for a store.
   *
   * @param database The client and its dialect.
   * @param rows The rows of slots.
   */
  constructor(database: Database, rows: SlotRows) {
    this.#database = database;
    this.#rows = rows;
  }

  /** Acquires a slot. */
  async acquire(terms: Terms, deadline: Deadline): Promise<Acquired> {
    const request = { ...terms, incarnation: this.#database.runtime.uuid() };
    const taken = await this.#take(request, deadline);
    if ("lease" in taken) return taken;
    return await this.#choose(request, { deadline, failure: taken.failure });
  }

  /**
   * Acquires in one statement, where the dialect can and a slot is there that nobody holds or picks. An own
   * slot that is still held comes first, and is not taken so: then nothing is.
   */
  async #take(request: AcquireRequest, deadline: Deadline): Promise<Acquired | Missed> {
    const { dialect, runtime } = this.#database;
    if (dialect.takeSlot === undefined || this.#rows.byTransaction) return missed;
    const nonce = this.#rows.nextNonce();
    const { namespace } = request;
    const statement = dialect.takeSlot({
      table: this.#rows.tables.slot,
      candidates: (now) => sql`namespace = ${namespace} and ${isCandidate(now, request)}`,
      order: preference(request, { shuffle: shuffleOf(() => runtime.random()), dialect }),
      settled: isSettled(this.#rows.tables, request),
      set: (now) => acquiring(now, request, undefined),
      where: (now) => sql`namespace = ${namespace} and ${isVacant(now, request)}`,
      nonce,
    });
    const call = { name: "slot.acquire", deadline };
    return await this.#step(async () => {
      const { result, sent } = await this.#rows.send(statement, call);
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
    const holder = this.#rows.holder({ ...request, slot, fence: fence + 1 });
    const change = {
      set: (now: Statement) =>
        acquiring(now, request, this.#rows.bindsCeiling ? ceilingMs : undefined),
      where: (now: Statement) => isUntouched(now, request, candidate),
    };
    return this.#step(async () => {
      const written = await this.#rows.change(change, { holder, name: "slot.acquire", deadline });
      if (!written.done) return missed;
      const { row } = written;
      if (row !== undefined) return this.#acquired(request, row, written);
      this.#rows.observe(request, written);
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
    this.#rows.observe(request, { storeMs: row.number("now_ms"), sent: written.sent });
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
    const statement = selectCandidates(this.#rows.tables, request, {
      dialect,
      shuffle: shuffleOf(() => runtime.random()),
      count: candidateCount,
    });
    const sent = this.#rows.moment();
    const { rows } = await this.#rows.read(statement, { name: "slot.candidates", deadline });
    const [first] = rows;
    if (first === undefined) throw new ConfigurationError(strangeAnswer);
    const nowMs = first.number("now_ms");
    this.#rows.observe(request, { storeMs: nowMs, sent });
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
        `Cannot acquire slot: table ${this.#rows.tables.slot} has several rows of one slot, its primary ` +
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
      await this.#insert(insertNamespace(this.#rows.tables, request), {
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
      const statement = insertSlots(this.#rows.tables, namespace, range);
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
