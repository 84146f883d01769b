/**
 * A lease that is kept renewed.
 *
 * What the holder trusts: the database has confirmed the lease for `ttlMs` from no earlier than the
 * moment at which the attempt was sent, so until then, less a margin, nobody else holds the slot. An
 * answer that comes late stretches nothing.
 *
 * ```text
 *   renewal sent      answer         next renewal   …one more fits    no longer trusted   expires
 *   ├────────────────────┤                 ├───────────────┤                  |·····margin·····|
 *   └── renewEveryMs ────────────────────→ ┘
 *   └── ttlMs - marginMs ─────────────────────────────────────────────────→ ┘
 * ```
 *
 * Each clock's use: the monotonic clock measures trust. It stands still while a machine sleeps, so the
 * wall clock is asked too: if by that one the time is over, the lease does not count until a renewal has
 * succeeded. Both are read when `held` is asked, so a blocked event loop deceives nobody.
 *
 * What can fail: a renewal. It is repeated until it succeeds or the trust has run out. The lease is lost
 * if the row says that another holds the slot, if the trust has run out, or if the server says that it is
 * read-only, for then another may be the primary. From then on `signal` is aborted, nothing is stamped,
 * and the hold does not acquire again by itself.
 *
 * @module
 */

import { checkCallOptions } from "../arguments.ts";
import { LeaseLostError, type LeaseLostReason, StoreError, TimeoutError } from "../errors.ts";
import { emit, type EventListener } from "../events.ts";
import { backoffMs } from "../retry.ts";
import { type CallOptions, Deadline, type Runtime, type Timer } from "../runtime.ts";
import { checkRelease, type ReleaseOptions, type Renewal } from "./slot_arguments.ts";
import { lastUseOf, type SlotLease, stampWindow } from "./slot_lease.ts";
import type { Confirmation } from "./slot_rows.ts";
import type { StoreClock } from "./store_clock.ts";

/** What a hold is given. */
export interface HoldParts extends Renewal {
  /** What confirmed the lease. */
  readonly confirmed: Confirmation;
  /** Time and chance. */
  readonly runtime: Runtime;
  /** The observer, if there is one. */
  readonly onEvent: EventListener | undefined;
  /** The store clock, as far as it is known. */
  readonly clock: StoreClock;
  /** Sends one renewal. */
  readonly renew: (deadline: Deadline) => Promise<Confirmation>;
  /** Sends one release. */
  readonly release: (lastUsedMs: number | undefined, deadline: Deadline) => Promise<void>;
  /** Starts the time of a call. */
  readonly deadline: (call: CallOptions) => Deadline;
  /** Is told when the hold has ended. */
  readonly ended: () => void;
}

/** What a generator needs of a hold. */
export interface HoldView {
  /** Time and chance. */
  readonly runtime: Runtime;
  /** The store clock, as far as it is known. */
  readonly clock: StoreClock;
  /** Starts the time of a call. */
  readonly deadline: (call: CallOptions) => Deadline;
  /** Loses the lease if its trust has run out, and throws if it is held no longer. */
  readonly check: (action: string) => void;
}

let viewOf: (hold: SlotHold) => HoldView;
let isMade: (value: object) => boolean;

/**
 * A lease that is kept renewed until it is released or lost.
 *
 * @example
 * ```ts
 * import { openStore } from "@fencepost/store";
 *
 * await using store = await openStore("sqlite::memory:", { initSchema: true });
 * await using hold = await store.slots.hold({ namespace: "nightly-report", limit: 1, stamps: false });
 * hold.signal.addEventListener("abort", () => console.log("no longer ours"));
 * if (hold.held) console.log(`working under fence ${hold.lease.fence}`);
 * ```
 */
export class SlotHold implements AsyncDisposable {
  /** The lease. */
  readonly lease: SlotLease;
  readonly #parts: HoldParts;
  readonly #controller = new AbortController();
  /** Until when the lease is trusted, on the monotonic and on the host's clock. */
  #trustedUntilMs: number;
  #trustedUntilWallMs: number;
  /** When the next renewal is due, on the monotonic clock. */
  #renewAtMs: number;
  /** How many renewals have failed since the last that succeeded. */
  #failures = 0;
  #timer: Timer | undefined;
  #renewing: Promise<void> | undefined;
  #ended: LeaseLostReason | undefined;
  #releasing: Promise<void> | undefined;
  /** What the first release said was stamped last: every other says the same. */
  #lastUse: { readonly ms: number | undefined } | undefined;

  static {
    viewOf = (hold) => hold.#view;
    isMade = (value) => #ended in value;
  }

  /**
   * Used by the store.
   *
   * @param lease The lease.
   * @param parts What confirmed it, and what renews and releases it.
   */
  constructor(lease: SlotLease, parts: HoldParts) {
    this.lease = lease;
    this.#parts = parts;
    const { confirmed, marginMs, renewEveryMs } = parts;
    this.#trustedUntilMs = confirmed.sentMs + confirmed.lastsMs - marginMs;
    this.#trustedUntilWallMs = confirmed.sentWallMs + confirmed.lastsMs - marginMs;
    this.#renewAtMs = confirmed.sentMs + (confirmed.written ? renewEveryMs : 0);
    this.#schedule();
  }

  /** Aborts when the lease is held no longer; its reason is a `LeaseLostError` that tells why. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /**
   * Whether the lease is trusted at this moment, by the clocks of this machine. It may be false for a
   * while after the machine has slept, until a renewal has succeeded.
   *
   * Two may believe for a while that they hold a slot, if the database's clock was set forward: what must
   * not happen twice takes the fence, or `assertHeld`.
   */
  get held(): boolean {
    this.#check();
    if (this.#ended !== undefined) return false;
    if (this.#parts.runtime.wallMs() < this.#trustedUntilWallMs) return true;
    const { background, runtime } = this.#parts;
    if (background && (this.#failures === 0 || runtime.monotonicMs() >= this.#renewAtMs)) {
      this.#attempt();
    }
    return false;
  }

  /**
   * Renews the lease now, or joins the renewal that is under way. Needed only without a background.
   *
   * @param options How long the call may take, at most `renewTimeoutMs`: a renewal ends then.
   * @throws {LeaseLostError} If the lease is held no longer.
   * @throws {TimeoutError} If it did not end in time; it can be repeated.
   * @throws {StoreError} If the database or the driver failed; it can be repeated.
   * @throws {InvalidArgumentError} If an option is not allowed; nothing was sent.
   */
  async renew(options: CallOptions = {}): Promise<void> {
    checkCallOptions("renew lease", options);
    this.#check();
    if (this.#ended !== undefined) throw this.#error("renew lease", this.#ended);
    const { runtime, renewTimeoutMs } = this.#parts;
    const renewing = this.#renewing ?? this.#start();
    // Whoever joins is not to fail with the signal or the time of somebody else.
    const { timeoutMs = renewTimeoutMs, signal } = options;
    await new Deadline(runtime, { timeoutMs, signal }).race("slot.renew", renewing);
  }

  /**
   * Ends the hold and frees the slot. Nothing is stamped afterwards, whatever the outcome. Does nothing
   * once it has succeeded.
   *
   * @param options What was stamped last, where ids were not made by the library, and how long the call
   * may take.
   * @throws {TimeoutError} If it did not end in time; it can be repeated.
   * @throws {StoreError} If the database or the driver failed; it can be repeated. Else the slot comes
   * free when the lease expires.
   * @throws {InvalidArgumentError} If an option is not allowed; nothing was sent.
   */
  async release(options: ReleaseOptions = {}): Promise<void> {
    const lastUsedMs = checkRelease("release lease", options, this.lease);
    const { onEvent, release, deadline } = this.#parts;
    this.#lastUse ??= { ms: lastUseOf(this.lease, lastUsedMs) };
    this.#end("released");
    if (this.#ended === "replaced") return;
    if (this.#releasing !== undefined) return await this.#releasing;
    try {
      this.#releasing = release(this.#lastUse.ms, deadline(options));
      await this.#releasing;
    } catch (error) {
      this.#releasing = undefined;
      if (onEvent) emit(onEvent, { type: "releaseFailed", ...this.#name, error });
      throw error;
    }
  }

  /**
   * Releases the lease, for `await using`. It does not throw if that fails: the slot then comes free when
   * the lease expires, and an event tells why.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => {});
  }

  get #view(): HoldView {
    const { runtime, clock, deadline } = this.#parts;
    const check = (action: string) => {
      this.#check();
      if (this.#ended !== undefined) throw this.#error(action, this.#ended);
    };
    return { runtime, clock, deadline, check };
  }

  get #name(): { namespace: string; slot: number; fence: number } {
    const { namespace, slot, fence } = this.lease;
    return { namespace, slot, fence };
  }

  /** Loses the lease if its trust has run out. */
  #check(): void {
    if (this.#ended !== undefined) return;
    if (this.#parts.runtime.monotonicMs() >= this.#trustedUntilMs) this.#lose("expired");
  }

  /** Wakes up when a renewal is due, and when the trust runs out. */
  #schedule(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    const { runtime, background } = this.#parts;
    if (!background || this.#ended !== undefined) return;
    const atMs = this.#renewing
      ? this.#trustedUntilMs
      : Math.min(this.#renewAtMs, this.#trustedUntilMs);
    const ms = Math.max(0, Math.ceil(atMs - runtime.monotonicMs()));
    this.#timer = runtime.setTimer(() => this.#wake(), ms);
    this.#timer.unref?.();
  }

  #wake(): void {
    this.#check();
    if (this.#ended !== undefined) return;
    const isDue = this.#parts.runtime.monotonicMs() >= this.#renewAtMs;
    if (isDue && this.#renewing === undefined) this.#attempt();
    else this.#schedule();
  }

  /** Starts a renewal unless one is under way; its failure is told by an event. */
  #attempt(): void {
    if (this.#renewing === undefined) this.#start();
  }

  #start(): Promise<void> {
    const renewing = this.#renew().finally(() => {
      this.#renewing = undefined;
      this.#schedule();
    });
    // Who asked for it hears of it by other ways.
    renewing.catch(() => {});
    this.#renewing = renewing;
    this.#schedule();
    return renewing;
  }

  async #renew(): Promise<void> {
    const { runtime, onEvent, renewEveryMs, renewTimeoutMs: timeoutMs } = this.#parts;
    try {
      this.#confirm(await this.#parts.renew(this.#parts.deadline({ timeoutMs })));
    } catch (error) {
      if (error instanceof LeaseLostError) this.#lose(error.reason);
      // Another server may have become the primary, and may not know of the lease.
      if (error instanceof StoreError && error.kind === "readOnly") this.#lose("readOnly");
      const nowMs = runtime.monotonicMs();
      const backoff = Math.min(renewEveryMs / 2, backoffMs(runtime, ++this.#failures));
      // One that took all of its time has waited enough.
      const delayMs = error instanceof TimeoutError ? 0 : backoff;
      this.#renewAtMs = nowMs + delayMs;
      if (onEvent && this.#ended === undefined) {
        const trustedForMs = Math.max(0, this.#trustedUntilMs - nowMs);
        emit(onEvent, { type: "renewFailed", ...this.#name, error, trustedForMs });
      }
      throw error;
    }
    this.#check();
    if (this.#ended !== undefined) throw this.#error("renew lease", this.#ended);
  }

  #confirm({ sentMs, sentWallMs, lastsMs, written }: Confirmation): void {
    if (this.#ended !== undefined) return;
    const { marginMs, renewEveryMs, runtime } = this.#parts;
    // Trust that has run out meanwhile is not given back.
    this.#check();
    this.#trustedUntilMs = sentMs + lastsMs - marginMs;
    this.#trustedUntilWallMs = sentWallMs + lastsMs - marginMs;
    if (written) {
      this.#failures = 0;
      this.#renewAtMs = sentMs + renewEveryMs;
    } else {
      this.#renewAtMs = runtime.monotonicMs() + backoffMs(runtime, ++this.#failures);
    }
  }

  #lose(reason: LeaseLostReason): void {
    if (this.#ended !== undefined) return;
    const { onEvent } = this.#parts;
    this.#end(reason);
    if (onEvent) emit(onEvent, { type: "lost", ...this.#name, reason });
  }

  #end(reason: LeaseLostReason): void {
    if (this.#ended !== undefined) return;
    this.#ended = reason;
    stampWindow(this.lease).close();
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#parts.ended();
    this.#controller.abort(this.#error("use lease", reason));
  }

  #error(action: string, reason: LeaseLostReason): LeaseLostError {
    return new LeaseLostError(action, { ...this.#name, reason });
  }
}

/** What a generator needs of a hold. */
export function holdView(hold: SlotHold): HoldView {
  return viewOf(hold);
}

/** Whether a value is a hold that a store of this copy of the library has made. */
export function isSlotHold(value: unknown): value is SlotHold {
  return typeof value === "object" && value !== null && isMade(value);
}
