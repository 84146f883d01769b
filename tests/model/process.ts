/**
 * A process of the model: a store of its own over the database that all share, with clocks of its own,
 * and what the process has and believes.
 *
 * @module
 */

import {
  InvalidArgumentError,
  LeaseLostError,
  SlotsExhaustedError,
  StoreError,
  type StoreErrorKind,
  TimeoutError,
} from "../../core/errors.ts";
import type {
  HeldSnowflakeIdsOptions,
  IdFormat,
  SnowflakeIds,
  SnowflakeIdsOptions,
} from "../../core/id/snowflake_ids.ts";
import type { SnowflakeLayout } from "../../core/id/snowflake_layout.ts";
import type { SlotHold } from "../../core/slot/slot_hold.ts";
import type { SlotLease, SlotLeaseData } from "../../core/slot/slot_lease.ts";
import type { Client, QueryOptions, TransactionScript } from "../../core/sql/client.ts";
import type { QueryResult } from "../../core/sql/row.ts";
import type { Statement } from "../../core/sql/statement.ts";
import { openStoreOver, type Store } from "../../core/store.ts";
import type { Clocks } from "./clocks.ts";
import { dialects, namespace, type SlotRow } from "./database.ts";
import { areSame } from "./rules.ts";
import type { Befalling, Command, Fault } from "./schedule.ts";
import type { Moment, World } from "./world.ts";

type Of<T extends Command["do"]> = Extract<Command, { readonly do: T }>;

/** What a process has of a slot. */
export interface Tenure {
  readonly process: Process;
  readonly lease: SlotLease;
  readonly hold: SlotHold | undefined;
  readonly generators: Stamper[];
  /** The generator whose own the hold is. */
  readonly owned: SnowflakeIds<IdFormat> | undefined;
  /** The last millisecond that was stamped without a generator. */
  usedByHandMs: number | undefined;
  /** How many ids were made by hand in each unit. */
  readonly byHand: Map<number, number>;
  /** Whether it may be stamped from. */
  readonly stamps: boolean;
  /** Whether its release was asked for, so that nothing may be stamped. */
  released: boolean;
  /** Whether it was released behind its back. */
  copyReleased: boolean;
  /** Lets the owner key be used again. */
  readonly leave: () => void;
}

/** A generator, and the last id that it gave. */
interface Stamper {
  readonly ids: SnowflakeIds<IdFormat>;
  last: number;
}

/** A hold that may be trusted. */
export interface Trusted {
  readonly slot: number;
  /** Whether it is. */
  readonly isHeld: () => boolean;
  /** Whether both clocks of its process have run slower than the margin allows. */
  readonly isExcused: () => boolean;
}

/** Until when the answers that a process has received allow it to trust a lease. */
interface Confirmed {
  monotonicMs: number;
  wallMs: number;
  /** Of the one that was sent last: when, in true time, and for how long it lasts. */
  sentTrueMs: number;
  lastsMs: number;
}

/** What came of carrying out a statement. */
interface Carried<T> {
  readonly value: T;
  readonly result: QueryResult;
  readonly incarnation: string | undefined;
  readonly isWrite: boolean;
}

/** A process, from its start to its end. */
export class Process implements Client {
  readonly family = "sqlite";
  /** Its clocks. */
  readonly clocks: Clocks;
  /** Its owner key. */
  readonly key: string;
  /** Whether it has ended: nothing reaches it any longer. */
  ended = false;
  /** How many calls of the library have not ended. */
  pending = 0;
  readonly #world: World;
  readonly #faults: { readonly fault: Fault; after: number }[] = [];
  readonly #tenures: Tenure[] = [];
  readonly #confirmed = new Map<string, Confirmed>();
  readonly #store: Promise<Store>;
  #befallen = 0;
  /** Whether an acquire is under way with the owner key of the process, or one of its leases has it. */
  #keyInUse: object | undefined;

  /**
   * Starts one.
   *
   * @param world The world that it is in.
   * @param options Its clocks and its owner key.
   */
  constructor(world: World, { clocks, key }: { clocks: Clocks; key: string }) {
    this.#world = world;
    this.clocks = clocks;
    this.key = key;
    const { form, fetchPlan } = world.schedule;
    const options = { dialect: dialects[form], fetchPlan, runtime: clocks, builtIn: [] };
    this.#store = openStoreOver(this, { ...options, builtIn: [dialects[form]] });
  }

  server(): Promise<{ product: string; version: string }> {
    return Promise.resolve({ product: "SQLite", version: "3.45.0" });
  }

  query(statement: Statement, { name }: QueryOptions): Promise<QueryResult> {
    return this.#send(name, (nowMs) => {
      const { result, incarnation, isWrite } = this.#carryOut(statement, { name, nowMs });
      return { value: result, result, incarnation, isWrite };
    });
  }

  transaction<T>(script: TransactionScript<T>, { name }: QueryOptions): Promise<T> {
    // It begins when it is sent; only its first statement waits with the clock of then.
    const steps = script();
    const first = steps.next();
    return this.#send(name, (nowMs) => {
      let last: Omit<Carried<T>, "value"> = {
        result: { rows: [], affected: 0 },
        incarnation: undefined,
        isWrite: false,
      };
      let [step, atMs] = [first, nowMs];
      while (!step.done) {
        last = this.#carryOut(step.value, { name, nowMs: atMs });
        step = steps.next(last.result);
        atMs = this.#world.storeMs;
      }
      return { ...last, value: step.value };
    });
  }

  session(): never {
    throw new TypeError("The model has no transactions of applications");
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  /** Lets something befall a later statement. */
  befall(suffers: Befalling | null): void {
    if (suffers !== null && this.#faults.length < 4) this.#faults.push({ ...suffers });
  }

  /** Lets nothing befall its statements any longer. */
  recover(): void {
    this.#faults.length = 0;
  }

  /** Acquires, and keeps what it gets. */
  acquire(command: Of<"acquire">): void {
    const { schedule, rules, database } = this.#world;
    const { ttlMs, toleranceMs, limit, marginMs } = schedule;
    const hasOwnKey = command.ownKey && this.#keyInUse === undefined;
    const ownerKey = hasOwnKey ? this.key : this.#world.unique("key");
    // That of a generator is about the generator.
    const isUsual = schedule.maxAheadMs < 0 || command.as === "ids";
    const maxAheadMs = isUsual ? ttlMs + toleranceMs : schedule.maxAheadMs;
    const options = {
      ...{ namespace, limit, ttlMs, toleranceMs, ownerKey },
      maxAheadMs: isUsual ? undefined : maxAheadMs,
      preferredSlot: command.preferred >= 0 && command.preferred < limit
        ? command.preferred
        : undefined,
    };
    const renewEveryMs = Math.floor(ttlMs / 3);
    const renewTimeoutMs = schedule.patient ? renewEveryMs - 1 : undefined;
    const renewal = { marginMs, renewEveryMs, renewTimeoutMs };
    const started = { rows: database.rows, step: this.#world.step, befallen: this.#befallen };
    const isClean = () => started.step === this.#world.step && started.befallen === this.#befallen;
    const terms = { nowMs: this.#world.storeMs, ownerKey, maxAheadMs };
    this.befall(command.suffers);
    const use = {};
    if (hasOwnKey) this.#keyInUse = use;
    const leave = () => {
      if (this.#keyInUse === use) this.#keyInUse = undefined;
    };
    const made = async (): Promise<Pick<Tenure, "hold" | "lease" | "owned">> => {
      const { slots } = await this.#store;
      if (command.as === "lease") {
        return { lease: await slots.acquire(options), hold: undefined, owned: undefined };
      }
      if (command.as === "ids") {
        const ids = await this.#open({ ...options, ...renewal });
        return { lease: ids.hold.lease, hold: ids.hold, owned: ids };
      }
      const [background, stamps] = [command.as === "background", command.as !== "job"];
      const hold = await slots.hold({ ...options, ...renewal, background, stamps });
      return { lease: hold.lease, hold, owned: undefined };
    };
    this.#run(
      made(),
      ({ lease, hold, owned }) => {
        const { slot, fence } = lease;
        const tenure: Tenure = {
          process: this,
          ...{ lease, hold, owned, usedByHandMs: undefined, byHand: new Map() },
          generators: owned ? [{ ids: owned, last: -1 }] : [],
          ...{ stamps: command.as !== "job", released: false, copyReleased: false, leave },
        };
        this.#tenures.push(tenure);
        this.#world.tenures.push(tenure);
        const isLive = () =>
          !this.ended && !tenure.released && !tenure.copyReleased && !hold?.signal.aborted;
        rules.tenancies.set(lease.incarnation, { slot, fence, isLive });
        hold?.signal.addEventListener("abort", () => {
          leave();
          if (!this.ended) this.#isLost(hold.signal.reason, lease);
        });
        if (!isClean()) return;
        const own = started.rows.filter((row) => row.owner_key === ownerKey && isOpen(row, terms));
        if (own.length > 0 && !own.some((row) => row.slot === slot)) {
          rules.broken("choice", `${ownerKey} got slot ${slot}, and not its own back`);
        }
      },
      (error) => {
        leave();
        if (!isClean()) return isFailure(error) || error instanceof SlotsExhaustedError;
        if (!(error instanceof SlotsExhaustedError)) return false;
        const { rows } = database;
        const open = rows.find((row) => isOpen(row, terms));
        if (open || rows.length < limit) {
          rules.broken("choice", `slot ${open?.slot} was open, but: ${error.message}`);
        }
        const free = Math.min(...rows.map((row) => opensAtMs(row, terms)));
        if (error.nextFreeAt.getTime() !== free) {
          rules.broken("choice", `the next comes free at ${free}, but: ${error.message}`);
        }
        return true;
      },
    );
  }

  /** Renews a lease, or a copy of it. */
  renew(tenure: Tenure, { copy, suffers }: Of<"renew">): void {
    this.befall(suffers);
    const { lease, hold } = tenure;
    const renewed = async () => {
      const { slots } = await this.#store;
      if (copy) return void this.#world.rules.believed(await slots.renew(copyOf(lease)));
      if (hold) await hold.renew();
      else await slots.renew(lease);
    };
    this.#run(renewed(), () => {}, (error) => isFailure(error) || this.#isLost(error, lease));
  }

  /** Releases a lease. */
  release(tenure: Tenure, { tells, copy, suffers }: Of<"release">): void {
    this.befall(suffers);
    const { lease, hold, usedByHandMs, generators } = tenure;
    const isTold = tells && generators.length === 0;
    const lastUsedMs = isTold ? usedByHandMs ?? lease.floorMs - 1 : undefined;
    const done = async () => {
      const { slots } = await this.#store;
      if (copy) return await slots.release(copyOf(lease));
      if (tenure.owned) await tenure.owned.close();
      else if (hold) await hold.release({ lastUsedMs });
      else await slots.release(lease, { lastUsedMs });
    };
    if (copy) tenure.copyReleased = true;
    else {
      tenure.released = true;
      tenure.leave();
    }
    this.#run(done(), () => {}, isFailure);
  }

  /** Opens a generator. */
  generate(tenure: Tenure, { over }: Of<"generator">): void {
    if (tenure.hold === undefined || tenure.usedByHandMs !== undefined) return;
    const { hold, generators, stamps } = tenure;
    if (over === "otherLayout" && generators.length === 0) return;
    if (over === "hold" && generators.length >= 3) return;
    const { layout } = this.#world;
    const asked = {
      copy: { hold: copyOfHold(hold) },
      hold: { hold },
      otherLayout: { hold, layout: { ...layout, sequenceBits: layout.sequenceBits + 1 } },
    }[over];
    this.#run(
      this.#open(asked),
      (ids) => {
        generators.push({ ids, last: -1 });
        if (over !== "hold" || !stamps) {
          this.#world.rules.broken("ids", `a generator was given over ${over}`);
        }
      },
      (error) => (over !== "hold" || !stamps) && error instanceof InvalidArgumentError,
    );
  }

  async #open(
    options: HeldSnowflakeIdsOptions<IdFormat> | SnowflakeIdsOptions<IdFormat>,
  ): Promise<SnowflakeIds<IdFormat>> {
    const { layout, schedule: { idsAheadMs: maxAheadMs, format } } = this.#world;
    const store = await this.#store;
    return await store.snowflakeIds<IdFormat>({ layout, ...options, format, maxAheadMs });
  }

  /** Makes ids without waiting. */
  stamp(tenure: Tenure, { by, count }: Of<"stamp">): void {
    const generator = tenure.generators[by % Math.max(1, tenure.generators.length)];
    if (generator === undefined) return;
    try {
      for (let made = 0; made < count; made++) {
        const id = generator.ids.tryNext();
        if (id === undefined) break;
        this.#made(tenure, generator, id);
      }
    } catch (error) {
      if (!(error instanceof LeaseLostError)) this.#unexpected(error);
    }
  }

  /** Makes ids, and waits for them. */
  next(tenure: Tenure, { by, count }: Of<"next">): void {
    const generator = tenure.generators[by % Math.max(1, tenure.generators.length)];
    if (generator === undefined) return;
    this.#run(
      generator.ids.nextMany(count),
      (ids) => {
        // Others may have been made meanwhile, so these rise among themselves only.
        const own = { ids: generator.ids, last: -1 };
        for (const id of ids) this.#made(tenure, own, id);
      },
      (error) => isFailure(error) || error instanceof LeaseLostError,
    );
  }

  /** Stamps a unit of the window without a generator. */
  stampByHand(tenure: Tenure, { before }: Of<"byHand">): void {
    if (tenure.released || !tenure.stamps || tenure.generators.length > 0) return;
    const { layout, rules } = this.#world;
    const { lease, byHand } = tenure;
    const { epochMs, unitMs, slotBits, sequenceBits } = layout;
    const unit = Math.floor((lease.ceilingMs + 1 - epochMs) / unitMs) - 1 - before;
    const firstMs = epochMs + unit * unitMs;
    const lastMs = firstMs + unitMs - 1;
    const sequence = byHand.get(unit) ?? 0;
    if (firstMs < lease.floorMs || sequence >= 2 ** sequenceBits) return;
    byHand.set(unit, sequence + 1);
    tenure.usedByHandMs = Math.max(tenure.usedByHandMs ?? 0, lastMs);
    const id = (unit * 2 ** slotBits + lease.slot) * 2 ** sequenceBits + sequence;
    rules.stamped(lease, { id, firstMs, lastMs });
  }

  /** Asks whether a lease is held. */
  ask(tenure: Tenure): void {
    this.#isHeld(tenure);
  }

  /** How much true time has to pass until a lease must be trusted no longer; 0 if it never is. */
  trustedForMs({ lease, hold }: Tenure): number {
    const confirmed = this.#confirmed.get(lease.incarnation);
    if (confirmed === undefined || hold === undefined || hold.signal.aborted) return 0;
    const untilMs = confirmed.monotonicMs - this.#world.schedule.marginMs;
    const ms = Math.ceil((untilMs - this.clocks.monotonicMs()) / this.clocks.speed.monotonic);
    return ms > 0 && ms < mostTrustMs ? ms : 0;
  }

  /** Compares what it believes with what is so. */
  check(): void {
    for (const { lease } of this.#tenures) this.#world.rules.believed(lease);
  }

  /** The holds that may be trusted. */
  *trusted(): Iterable<Trusted> {
    for (const tenure of this.#tenures) {
      const { hold, lease, released, copyReleased } = tenure;
      if (hold === undefined || released || copyReleased || hold.signal.aborted) continue;
      const confirmed = this.#confirmed.get(lease.incarnation);
      if (confirmed === undefined || !this.#isWithin(confirmed)) continue;
      yield {
        slot: lease.slot,
        isHeld: () => this.#isHeld(tenure),
        isExcused: () => this.#world.trueMs - confirmed.sentTrueMs >= confirmed.lastsMs,
      };
    }
  }

  #isHeld({ hold, lease }: Tenure): boolean {
    const confirmed = this.#confirmed.get(lease.incarnation);
    if (hold === undefined || !hold.held) return false;
    if (confirmed === undefined || !this.#isWithin(confirmed)) {
      this.#world.rules.broken(
        "trust",
        `at ${this.clocks.monotonicMs()} slot ${lease.slot} is trusted, which was confirmed up to ` +
          `${confirmed?.monotonicMs}`,
      );
    }
    return true;
  }

  #isWithin({ monotonicMs, wallMs }: Confirmed): boolean {
    const { marginMs } = this.#world.schedule;
    return this.clocks.monotonicMs() < monotonicMs - marginMs &&
      this.clocks.wallMs() < wallMs - marginMs;
  }

  #made(tenure: Tenure, generator: Stamper, given: bigint | number | string): void {
    const { layout, rules } = this.#world;
    const { epochMs, unitMs, slotBits, sequenceBits } = layout;
    const id = Number(given);
    const unit = Math.floor(id / 2 ** (slotBits + sequenceBits));
    const slot = Math.floor(id / 2 ** sequenceBits) % 2 ** slotBits;
    const { lease } = tenure;
    if (id <= generator.last) rules.broken("order", `${id} came after ${generator.last}`);
    generator.last = id;
    if (slot !== lease.slot) rules.broken("ids", `${id} is not of slot ${lease.slot}`);
    if (tenure.released && this.#world.isStamping) {
      rules.broken("ids", `${id} was made after the release was asked for`);
    }
    const firstMs = epochMs + unit * unitMs;
    rules.stamped(lease, { id, firstMs, lastMs: firstMs + unitMs - 1 });
  }

  /** Carries out a statement, and shows what it changed. */
  #carryOut(
    statement: Statement,
    { name, nowMs }: { name: string; nowMs: number },
  ): Omit<Carried<unknown>, "value"> {
    const { database, rules, schedule } = this.#world;
    this.#world.statements++;
    const { result, values, change } = database.execute(statement, nowMs);
    const incarnation = values.find((value): value is string =>
      typeof value === "string" && value.startsWith("incarnation ")
    );
    if (change) rules.written({ name, incarnation, nowMs }, change);
    if (schedule.form !== "bound" || !change || result.affected === 0) {
      return { result, incarnation, isWrite: change !== undefined };
    }
    const isChanged = !areSame(change.before, change.after);
    const told = { missing: undefined, told: nowMs, wrong: nowMs + this.#world.astray() };
    const generatedKey = told[schedule.generatedKey];
    return {
      result: {
        rows: [],
        affected: schedule.counted === "changed" && !isChanged ? 0 : result.affected,
        generatedKey: generatedKey === undefined ? undefined : BigInt(generatedKey),
      },
      incarnation,
      isWrite: true,
    };
  }

  /** Sends something to the database, and lets happen to it what is to happen. */
  #send<T>(name: string, carryOut: (nowMs: number) => Carried<T>): Promise<T> {
    const sent: Moment = this.#world.moment(this.clocks);
    const fault = this.#nextFault();
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const answer = (carried: Carried<T>) => {
      if (this.ended) return;
      this.#learn(name, carried, sent);
      resolve(carried.value);
    };
    const fail = (error: unknown) => {
      if (!this.ended) reject(error);
    };
    const broken = () => reject(driverError("the connection is broken", 10));
    /** Carries it out; what the database refuses is its answer. */
    const act = (nowMs: number, then: (carried: Carried<T>) => void, or = fail) => {
      let carried;
      try {
        carried = carryOut(nowMs);
      } catch (error) {
        return or(error);
      }
      then(carried);
    };
    const nothing = () => {};
    const { world, frozen } = { world: this.#world, frozen: sent.storeMs };
    const current = () => world.storeMs;
    const later = (work: () => void) => void world.waiting.push(work);
    switch (fault) {
      case undefined:
        act(current(), answer);
        break;
      case "lost":
        broken();
        break;
      case "silent":
        break;
      case "replyLost":
        act(current(), nothing, nothing);
        broken();
        break;
      case "replySilent":
        act(current(), nothing, nothing);
        break;
      case "slow":
        act(current(), (carried) => later(() => answer(carried)));
        break;
      case "late":
        later(() => act(current(), nothing, nothing));
        broken();
        break;
      case "lateFrozen":
        later(() => act(frozen, nothing, nothing));
        broken();
        break;
      case "lateSilent":
        later(() => act(frozen, nothing, nothing));
        break;
      case "waiting":
        later(() => act(current(), answer));
        break;
      case "locked":
        later(() => act(frozen, answer));
        break;
      case "deadlock":
        reject(driverError("the database is locked", 5));
        break;
    }
    return promise;
  }

  #nextFault(): Fault | undefined {
    const [first] = this.#faults;
    if (first === undefined || first.after-- > 0) return undefined;
    this.#faults.shift();
    this.#befallen++;
    return first.fault;
  }

  /** Notes what an answer confirms. */
  #learn<T>(name: string, { result, incarnation, isWrite }: Carried<T>, sent: Moment): void {
    if (incarnation === undefined) return;
    let lastsMs: number;
    if (isWrite) {
      if (result.affected === 0 || name === "slot.release") return;
      lastsMs = this.#world.schedule.ttlMs;
    } else {
      const row = result.rows.find((one) => !one.has("mine") || one.boolean("mine"));
      if (row === undefined || row.isNull("expires_at")) return;
      lastsMs = row.number("expires_at") - row.number("now_ms");
    }
    const confirmed = this.#confirmed.get(incarnation);
    const monotonicMs = sent.monotonicMs + lastsMs;
    const wallMs = sent.wallMs + lastsMs;
    if (confirmed === undefined) {
      const sentTrueMs = sent.trueMs;
      this.#confirmed.set(incarnation, { monotonicMs, wallMs, sentTrueMs, lastsMs });
      return;
    }
    confirmed.monotonicMs = Math.max(confirmed.monotonicMs, monotonicMs);
    confirmed.wallMs = Math.max(confirmed.wallMs, wallMs);
    if (sent.trueMs < confirmed.sentTrueMs) return;
    confirmed.sentTrueMs = sent.trueMs;
    confirmed.lastsMs = lastsMs;
  }

  /** Follows a call of the library to its end, which may never come. */
  #run<T>(
    promise: Promise<T>,
    done: (value: T) => void,
    isExpected: (error: unknown) => boolean,
  ): void {
    this.pending++;
    promise.then((value) => {
      if (!this.ended) done(value);
    }).catch((error) => {
      if (!this.ended && !isExpected(error)) this.#unexpected(error);
    }).finally(() => this.pending--);
  }

  /** Whether an error says that a lease is lost; if another is said to have it, it has. */
  #isLost(error: unknown, { slot, fence, incarnation }: SlotLease): boolean {
    if (!(error instanceof LeaseLostError)) return false;
    const row = this.#world.database.rows.find((one) => one.slot === slot);
    if (error.reason === "replaced" && row?.fence === fence && row.incarnation === incarnation) {
      this.#world.rules.broken("errors", `the row says otherwise: ${error.message}`);
    }
    return true;
  }

  #unexpected(error: unknown): void {
    const text = error instanceof Error ? error.stack ?? error.message : String(error);
    this.#world.rules.broken("errors", text);
  }
}

/** Longer than any lease is trusted unless the clocks are far astray. */
const mostTrustMs = 10_000;

/** The layout of all ids of a schedule. */
export function layoutOf(
  { unitMs, sequenceBits }: { readonly unitMs: number; readonly sequenceBits: number },
  epochMs: number,
): SnowflakeLayout {
  return { epochMs, unitMs, sequenceBits, slotBits: 2, timeBits: 36 };
}

interface Taking {
  readonly nowMs: number;
  readonly ownerKey: string;
  readonly maxAheadMs: number;
}

/** Whether a slot can be taken, as the contract says it. */
function isOpen(row: SlotRow, taking: Taking): boolean {
  const { nowMs, ownerKey, maxAheadMs } = taking;
  if (row.next_floor_ms > nowMs + maxAheadMs) return false;
  return row.owner_key === null || row.owner_key === ownerKey || row.expires_at <= nowMs;
}

/** When a slot that cannot be taken can be. */
function opensAtMs(row: SlotRow, { ownerKey, maxAheadMs }: Taking): number {
  const reachedMs = row.next_floor_ms - maxAheadMs;
  const isFree = row.owner_key === null || row.owner_key === ownerKey;
  return isFree ? reachedMs : Math.max(reachedMs, row.expires_at);
}

function copyOf(lease: SlotLease): SlotLeaseData {
  return JSON.parse(JSON.stringify(lease));
}

function copyOfHold(hold: SlotHold): SlotHold {
  return Object.create(hold);
}

/** The failures that the model makes. */
const expectedKinds: readonly StoreErrorKind[] = ["connection", "serialization"];

function isFailure(error: unknown): boolean {
  return error instanceof TimeoutError ||
    (error instanceof StoreError && expectedKinds.includes(error.kind));
}

function driverError(message: string, errcode: number): Error {
  return Object.assign(new Error(message), { errcode });
}
