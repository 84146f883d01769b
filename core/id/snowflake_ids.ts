/**
 * Snowflake ids whose slot is leased, so that no two processes make the same.
 *
 * An id is `(time, slot, sequence)`. The slot and a window of time come from a lease: nobody else stamps
 * a millisecond of that window with that slot, whatever the clocks do. Within the window
 *
 *     time = max(floor, last, min(host clock, store clock + tolerance))
 *
 * and within one unit of time the sequence counts up; when it is used up, the next unit follows, up to
 * `maxAheadMs` ahead of the clock. So a host whose clock is slow, fast or set back stalls nothing, and
 * the ids of one generator rise. What was stamped last belongs to the lease: two generators of one hold
 * share it.
 *
 * Round trips: none for an id. Past the ceiling of the window `next` waits for a renewal; `tryNext`
 * never waits.
 *
 * What can fail: the lease is lost. Then nothing is stamped any longer, and every call throws
 * `LeaseLostError`. The bits for the time run out: `IdsExhaustedError`, no id is ever too large.
 *
 * The form of the ids is that of Twitter's Snowflake.
 *
 * @module
 */

import { checkCallOptions, checkNumber, checkOneOf, checkOptions, refuse } from "../arguments.ts";
import { IdsExhaustedError, LeaseLostError, StoreError, TimeoutError } from "../errors.ts";
import { backoffMs } from "../retry.ts";
import type { CallOptions } from "../runtime.ts";
import {
  holdOptionNames,
  type HoldOptions,
  maxLimit,
  maxMaxAheadMs,
} from "../slot/slot_arguments.ts";
import { type HoldView, holdView, isSlotHold, type SlotHold } from "../slot/slot_hold.ts";
import { stampWindow } from "../slot/slot_lease.ts";
import {
  checkLayout,
  exhaustedMs,
  idBits,
  numberBits,
  parseSnowflakeId,
  sameLayout,
  type SnowflakeLayout,
  snowflakeLayout,
  type SnowflakeParts,
} from "./snowflake_layout.ts";
import type { StampWindow } from "./stamp_window.ts";

/** As what ids are given. */
export type IdFormat = "bigint" | "number" | "string";

/** The type of an id of a format. */
export type IdOf<F extends IdFormat> = F extends "number" ? number
  : F extends "string" ? string
  : bigint;

/** How ids are made of a hold. */
export interface SnowflakeOptions<F extends IdFormat = "bigint"> {
  /**
   * How the bits of an id are shared out. All users of the namespace give the same.
   *
   * @default {snowflakeLayout}
   */
  layout?: SnowflakeLayout;
  /**
   * As what ids are given: `bigint`; `number`, for layouts of at most 53 bits; `string`, in decimal.
   *
   * @default {"bigint"}
   */
  format?: F;
  /**
   * How far ahead of its clock the generator stamps when more ids are asked for than a unit has, in
   * milliseconds, from 0 to 172,800,000 (two days). It never stamps beyond its window.
   *
   * @default {1000}
   */
  maxAheadMs?: number;
}

/** The options of a generator with a hold of its own. */
export interface SnowflakeIdsOptions<F extends IdFormat = "bigint">
  extends Omit<HoldOptions, "limit" | "maxAheadMs" | "stamps">, SnowflakeOptions<F> {
  /**
   * How many slots the namespace has, from 1 to what the layout has room for, and at most 65,536. All
   * users of the namespace give the same. As many as the layout has room for unless given.
   */
  limit?: number;
  /** A hold of the caller's is given without terms. */
  hold?: never;
}

/** The options of a generator over a hold that the caller has. */
export interface HeldSnowflakeIdsOptions<F extends IdFormat = "bigint">
  extends SnowflakeOptions<F> {
  /** The hold. It is not released with the generator. */
  hold: SlotHold;
  /** A hold has its namespace already. */
  namespace?: never;
}

/** The most ids of one call. */
const maxMany = 1_000_000;

/** For how many failures a renewal counts that fails, as to how long the next is put off: about 80 ms. */
const attemptsBefore = 6;

const snowflakeOptionNames = ["layout", "format", "maxAheadMs"];

const ownedOptionNames = [
  ...holdOptionNames.filter((name) => name !== "stamps"),
  "layout",
  "format",
  "hold",
];

/** How long those who wait for a clock sleep at most, since some may leave, in milliseconds. */
const longestSleepMs = 250;

const name = "id.next";

/** A call that waits for ids. */
interface Waiting<T> {
  readonly ids: T[];
  readonly count: number;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** What a generator is to do, checked and complete. */
interface Plan {
  readonly layout: SnowflakeLayout;
  readonly format: IdFormat;
  readonly maxAheadMs: number;
}

/** Opens a generator: over the hold that is given, or over one of its own. */
export async function openSnowflakeIds<F extends IdFormat>(
  options: SnowflakeIdsOptions<F> | HeldSnowflakeIdsOptions<F>,
  { hold, wallMs }: { hold: (options: HoldOptions) => Promise<SlotHold>; wallMs: () => number },
): Promise<SnowflakeIds<F>> {
  const action = "open snowflake ids";
  if (isHeld(options)) {
    checkOptions(action, options, ["hold", ...snowflakeOptionNames]);
    const plan = planOf(action, options, wallMs());
    if (!isSlotHold(options.hold)) refuse(action, "hold must be a SlotHold", options.hold);
    return new SnowflakeIds<F>(options.hold, { ...plan, owned: false });
  }
  checkOptions(action, options, ownedOptionNames);
  const { layout: _layout, format: _format, maxAheadMs: _maxAheadMs, hold: _hold, ...terms } =
    options;
  const plan = planOf(action, options, wallMs());
  const room = Math.min(maxLimit, 2 ** plan.layout.slotBits);
  const what = `limit, for which the layout has ${plan.layout.slotBits} slotBits,`;
  const { limit: asked = room } = options;
  const limit = checkNumber(action, asked, { what, least: 1, most: room });
  return new SnowflakeIds<F>(await hold({ ...terms, limit }), { ...plan, owned: true });
}

function isHeld<F extends IdFormat>(
  options: SnowflakeIdsOptions<F> | HeldSnowflakeIdsOptions<F>,
): options is HeldSnowflakeIdsOptions<F> {
  return typeof options === "object" && options !== null && options.hold !== undefined;
}

function planOf(action: string, options: SnowflakeOptions<IdFormat>, nowMs: number): Plan {
  const { layout: given = snowflakeLayout, maxAheadMs: ahead = 1_000 } = options;
  const layout = checkLayout(action, given);
  checkOneOf(action, options.format, { name: "format", allowed: ["bigint", "number", "string"] });
  const { format = "bigint" } = options;
  if (format === "number" && idBits(layout) > numberBits) {
    refuse(
      action,
      `the bits of the layout must add up to at most ${numberBits} for the format number, see ` +
        `safeIntegerLayout`,
      idBits(layout),
    );
  }
  if (layout.epochMs > nowMs) {
    refuse(action, "epochMs of the layout must not lie in the future", layout.epochMs);
  }
  if (exhaustedMs(layout) <= nowMs) {
    const end = new Date(exhaustedMs(layout)).toISOString();
    refuse(action, `the layout must not have run out, it did at ${end}`, layout.epochMs);
  }
  const maxAheadMs = checkNumber(action, ahead, {
    what: "maxAheadMs",
    least: 0,
    most: maxMaxAheadMs,
  });
  return { layout, format, maxAheadMs };
}

/**
 * Ids that rise and never repeat in their namespace. A store opens it as `store.snowflakeIds`.
 *
 * @example
 * ```ts
 * import { openStore } from "@fencepost/store";
 *
 * await using store = await openStore("sqlite::memory:", { initSchema: true });
 * await using events = await store.snowflakeIds({ namespace: "events" });
 * const id = await events.next();
 * console.log(id, events.parse(id).slot);
 * ```
 */
export class SnowflakeIds<F extends IdFormat = "bigint"> implements AsyncDisposable {
  /** The hold whose slot is in the ids. */
  readonly hold: SlotHold;
  /** How the bits of an id are shared out. */
  readonly layout: SnowflakeLayout;
  /** When the bits for the time run out. */
  readonly exhaustsAt: Date;
  readonly #owned: boolean;
  readonly #view: HoldView;
  readonly #window: StampWindow;
  readonly #make: (sequence: number) => bigint | number | string;
  readonly #toleranceMs: number;
  readonly #maxAheadMs: number;
  readonly #maxSequence: number;
  /** The first and the last unit of time that are allowed by the window's floor and by the layout. */
  readonly #floorUnit: number;
  readonly #lastUnit: number;
  #closed = false;
  /** Those who wait, in their order, and whether somebody serves them. */
  #waiting: Waiting<IdOf<F>>[] = [];
  #serving = false;
  /** The unit for which the first id of the unit was computed, and that id. */
  #baseUnit = -1;
  #baseNumber = 0;
  #baseBigint = 0n;

  /**
   * Used by the store.
   *
   * @param hold The hold.
   * @param plan What the generator is to do, and whether the hold is its own.
   */
  constructor(hold: SlotHold, plan: Plan & { readonly owned: boolean }) {
    const { layout, format } = plan;
    const { lease } = hold;
    const action = "open snowflake ids";
    this.hold = hold;
    this.layout = layout;
    this.exhaustsAt = new Date(exhaustedMs(layout));
    this.#owned = plan.owned;
    this.#view = holdView(hold);
    this.#window = stampWindow(lease);
    if (!lease.stamps) {
      refuse(action, "the hold must not have been opened with stamps: false", hold);
    }
    if (lease.slot >= 2 ** layout.slotBits) {
      refuse(action, `the slot must fit into ${layout.slotBits} bits`, lease.slot);
    }
    const { layout: known = layout } = this.#window;
    if (!sameLayout(known, layout)) {
      refuse(action, "the hold has a generator of another layout already", "another layout");
    }
    this.#window.layout = known;
    this.#toleranceMs = lease.toleranceMs;
    this.#maxAheadMs = plan.maxAheadMs;
    this.#maxSequence = 2 ** layout.sequenceBits - 1;
    this.#floorUnit = Math.max(0, Math.ceil((lease.floorMs - layout.epochMs) / layout.unitMs));
    this.#lastUnit = 2 ** layout.timeBits - 1;
    this.#make = {
      bigint: (sequence: number) => this.#bigint(sequence),
      number: (sequence: number) => this.#number(sequence),
      string: (sequence: number) => this.#bigint(sequence).toString(),
    }[format];
  }

  /**
   * Makes an id without waiting.
   *
   * @returns The id; undefined if the unit of time, or the window, is used up for the moment.
   * @throws {LeaseLostError} If the lease is held no longer, or the generator was closed.
   * @throws {IdsExhaustedError} If the bits for the time have run out.
   */
  tryNext(): IdOf<F> | undefined {
    return this.#stamp() ? this.#make(this.#window.sequence) as IdOf<F> : undefined;
  }

  /**
   * Makes an id, and waits until there is one: for the clock, or for a renewal of the lease. Those who wait
   * are served in their order.
   *
   * @param options How long the call may take.
   * @throws {LeaseLostError} If the lease is held no longer, or the generator was closed.
   * @throws {IdsExhaustedError} If the bits for the time have run out.
   * @throws {TimeoutError} If it did not end in time.
   * @throws {InvalidArgumentError} If an option is not allowed.
   */
  async next(options?: CallOptions): Promise<IdOf<F>> {
    if (options !== undefined) {
      checkCallOptions("make id", options);
      options.signal?.throwIfAborted();
    }
    const id = this.#waiting.length === 0 ? this.tryNext() : undefined;
    if (id !== undefined) return id;
    const ids = await this.#wait({ ids: [], count: 1, options: options ?? {} });
    return ids[0] as IdOf<F>;
  }

  /**
   * Makes several ids, which rise, and waits until there are as many. Those who wait are served in their
   * order.
   *
   * @param count How many, from 1 to 1,000,000.
   * @param options How long the call may take. If it does not end in time, those made so far are lost.
   * @throws As `next` does.
   */
  async nextMany(count: number, options: CallOptions = {}): Promise<IdOf<F>[]> {
    const action = "make ids";
    checkNumber(action, count, { what: "the count", least: 1, most: maxMany });
    checkCallOptions(action, options);
    options.signal?.throwIfAborted();
    const ids: IdOf<F>[] = [];
    if (this.#waiting.length === 0 && this.#draw(ids, count)) return ids;
    return await this.#wait({ ids, count, options });
  }

  /**
   * Takes an id apart.
   *
   * @param id The id, in any format.
   * @throws {InvalidArgumentError} If it is no id of this layout.
   */
  parse(id: bigint | number | string): SnowflakeParts {
    return parseSnowflakeId(id, this.layout);
  }

  /**
   * Ends the generator, and releases the hold if it is its own. Idempotent.
   *
   * @param options How long the call may take.
   * @throws {TimeoutError} If the release did not end in time; it can be repeated.
   * @throws {StoreError} If the database or the driver failed; it can be repeated.
   */
  async close(options: CallOptions = {}): Promise<void> {
    checkCallOptions("close snowflake ids", options);
    this.#closed = true;
    if (this.#owned) await this.hold.release(options);
  }

  /** Ends the generator; for `await using`, so a release that fails is told by an event only. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    if (this.#owned) await this.hold[Symbol.asyncDispose]();
  }

  /** Moves the window's last stamp on by one; false if there is none for the moment. */
  #stamp(): boolean {
    const window = this.#window;
    if (this.#closed || window.closed) this.#throwEnded();
    const { runtime } = this.#view;
    const { epochMs, unitMs } = this.layout;
    const hostUnit = Math.floor((runtime.wallMs() - epochMs) / unitMs);
    if (window.unit >= 0 && hostUnit <= window.unit && window.sequence < this.#maxSequence) {
      window.sequence++;
      return true;
    }
    return this.#move(hostUnit);
  }

  /** Goes on to a later unit, or to the first. */
  #move(hostUnit: number): boolean {
    // Now and then is often enough: the window, not the trust, keeps ids apart.
    this.#view.check("make id");
    const window = this.#window;
    const { epochMs, unitMs } = this.layout;
    const storeMs = this.#storeMs();
    const cap = Math.floor((storeMs + this.#toleranceMs - epochMs) / unitMs);
    const clock = Math.max(this.#floorUnit, Math.min(hostUnit, cap));
    const isLater = clock > window.unit;
    if (!isLater && window.sequence < this.#maxSequence) {
      window.sequence++;
      return true;
    }
    const unit = isLater ? clock : window.unit + 1;
    if (!isLater) {
      const storeUnit = Math.floor((storeMs - epochMs) / unitMs);
      const ahead = Math.floor(this.#maxAheadMs / unitMs);
      if (unit > Math.max(clock, storeUnit) + ahead) return false;
    }
    if (unit > this.#lastUnit) throw new IdsExhaustedError(this.exhaustsAt);
    // Only units that lie wholly inside the window.
    if (epochMs + (unit + 1) * unitMs - 1 > window.ceilingMs) return false;
    window.unit = unit;
    window.sequence = 0;
    return true;
  }

  /** What the store clock is, as far as it is known. */
  #storeMs(): number {
    const { clock, runtime } = this.#view;
    return clock.estimate(runtime.monotonicMs()) ?? runtime.wallMs();
  }

  #number(sequence: number): number {
    const { unit } = this.#window;
    if (unit !== this.#baseUnit) {
      const { slotBits, sequenceBits } = this.layout;
      this.#baseNumber = (unit * 2 ** slotBits + this.hold.lease.slot) * 2 ** sequenceBits;
      this.#baseUnit = unit;
    }
    return this.#baseNumber + sequence;
  }

  #bigint(sequence: number): bigint {
    const { unit } = this.#window;
    if (unit !== this.#baseUnit) {
      const { slotBits, sequenceBits } = this.layout;
      const high = (BigInt(unit) << BigInt(slotBits)) + BigInt(this.hold.lease.slot);
      this.#baseBigint = high << BigInt(sequenceBits);
      this.#baseUnit = unit;
    }
    return this.#baseBigint + BigInt(sequence);
  }

  /** Adds ids until there are as many, or none is left for the moment. */
  #draw(ids: IdOf<F>[], count: number): boolean {
    while (ids.length < count) {
      const id = this.tryNext();
      if (id === undefined) return false;
      ids.push(id);
    }
    return true;
  }

  /** Waits behind those who wait already. */
  #wait(
    { ids, count, options }: { ids: IdOf<F>[]; count: number; options: CallOptions },
  ): Promise<IdOf<F>[]> {
    const deadline = this.#view.deadline(options);
    return new Promise((resolve, reject) => {
      const end = (settle: () => void) => {
        waiter.end();
        if (this.#waiting[0] === waiting) this.#waiting.shift();
        else this.#waiting = this.#waiting.filter((other) => other !== waiting);
        settle();
      };
      const waiting: Waiting<IdOf<F>> = {
        ids,
        count,
        resolve: () => end(() => resolve(ids)),
        reject: (error) => end(() => reject(error)),
      };
      this.#waiting.push(waiting);
      const waiter = deadline.onOver(() => waiting.reject(deadline.error(name, "nothing")));
      if (!this.#serving) this.#serve();
    });
  }

  /** Serves those who wait, the first before the next. */
  async #serve(): Promise<void> {
    this.#serving = true;
    for (let first = this.#waiting[0]; first !== undefined; first = this.#waiting[0]) {
      try {
        if (this.#draw(first.ids, first.count)) first.resolve();
        else await this.#pause();
      } catch (error) {
        first.reject(error);
      }
    }
    this.#serving = false;
  }

  /** Waits until there may be an id: for a renewal if the window ends, else for the clock. */
  async #pause(): Promise<void> {
    const { epochMs, unitMs } = this.layout;
    const { runtime } = this.#view;
    const unit = Math.max(this.#window.unit + 1, this.#floorUnit);
    const endMs = epochMs + (unit + 1) * unitMs - 1;
    const storeMs = this.#storeMs();
    const clockMs = Math.min(runtime.wallMs(), storeMs + this.#toleranceMs);
    const neededMs = Math.max(endMs, clockMs + unitMs);
    if (neededMs > this.#window.ceilingMs) {
      try {
        await this.hold.renew();
      } catch (error) {
        if (!(error instanceof StoreError || error instanceof TimeoutError)) throw error;
        return await this.#sleep(backoffMs(runtime, attemptsBefore));
      }
      // The ceiling rises as the store clock does.
      const missingMs = neededMs - this.#window.ceilingMs;
      if (missingMs > 0) await this.#sleep(missingMs);
      return;
    }
    const reachedMs = Math.max(clockMs, storeMs) + this.#maxAheadMs;
    await this.#sleep(epochMs + unit * unitMs - reachedMs);
  }

  /** Waits, as long as somebody waits for it. */
  async #sleep(ms: number): Promise<void> {
    const { runtime } = this.#view;
    const untilMs = runtime.monotonicMs() + Math.max(1, ms);
    for (;;) {
      const leftMs = untilMs - runtime.monotonicMs();
      if (leftMs <= 0 || this.#waiting.length === 0) return;
      const sliceMs = Math.min(longestSleepMs, leftMs);
      await new Promise<void>((resolve) => runtime.setTimer(resolve, sliceMs));
    }
  }

  #throwEnded(): never {
    this.#view.check("make id");
    // The lease of a live hold was released past it, or nothing but the generator has ended.
    const reason = this.#window.closed ? "released" : "closed";
    throw new LeaseLostError("make id", { ...this.hold.lease.toJSON(), reason });
  }
}
