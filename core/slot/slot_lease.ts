/**
 * A lease of a slot, as its holder has it.
 *
 * @module
 */

import { refuse } from "../arguments.ts";
import { StampWindow } from "../id/stamp_window.ts";

/**
 * What a lease is, as far as it can be written down and read back: `JSON.stringify(lease)` gives it. Who
 * has it can renew and release the lease and assert it, but not stamp ids: what was stamped is known only
 * where the lease was acquired.
 */
export interface SlotLeaseData {
  /** The namespace. */
  readonly namespace: string;
  /** The slot, from 0 to the limit of the namespace - 1. */
  readonly slot: number;
  /** The fencing token: every acquire of the slot raises it by one. */
  readonly fence: number;
  /** What tells this lease from every other, a random UUID: who knows it can renew and release. */
  readonly incarnation: string;
  /** Who holds it. */
  readonly ownerKey: string;
  /** How long a renewal lasts, in milliseconds. */
  readonly ttlMs: number;
  /** How far the ceiling lies beyond the expiry, in milliseconds. */
  readonly toleranceMs: number;
  /** The first millisecond that the holder may stamp. */
  readonly floorMs: number;
  /** The last millisecond that the holder may stamp, as far as it knows. */
  readonly ceilingMs: number;
  /**
   * Whether the holder stamps milliseconds of its window.
   *
   * @default {true}
   */
  readonly stamps?: boolean;
}

let windowOf: (lease: SlotLease) => StampWindow;
let isMade: (value: object) => value is SlotLease;

/**
 * A lease of a slot. It is known by its fence and its incarnation, never by its owner alone, and it
 * is renewed in place: its window only grows.
 */
export class SlotLease implements SlotLeaseData {
  readonly namespace: string;
  readonly slot: number;
  readonly fence: number;
  readonly incarnation: string;
  readonly ownerKey: string;
  readonly ttlMs: number;
  readonly toleranceMs: number;
  readonly floorMs: number;
  readonly stamps: boolean;
  readonly #window: StampWindow;

  static {
    windowOf = (lease) => lease.#window;
    isMade = (value): value is SlotLease => #window in value;
  }

  /**
   * Used by the store.
   *
   * @param data What the lease is.
   */
  constructor(data: SlotLeaseData) {
    this.namespace = data.namespace;
    this.slot = data.slot;
    this.fence = data.fence;
    this.incarnation = data.incarnation;
    this.ownerKey = data.ownerKey;
    this.ttlMs = data.ttlMs;
    this.toleranceMs = data.toleranceMs;
    this.floorMs = data.floorMs;
    this.stamps = data.stamps ?? true;
    this.#window = new StampWindow(data.floorMs, data.ceilingMs);
  }

  /** The last millisecond that the holder may stamp, as far as it knows. */
  get ceilingMs(): number {
    return this.#window.ceilingMs;
  }

  /** What can be written down and read back. */
  toJSON(): SlotLeaseData {
    const { namespace, slot, fence, incarnation, ownerKey } = this;
    const { ttlMs, toleranceMs, floorMs, ceilingMs, stamps } = this;
    return {
      namespace,
      slot,
      fence,
      incarnation,
      ownerKey,
      ttlMs,
      toleranceMs,
      floorMs,
      ceilingMs,
      stamps,
    };
  }
}

/** Whether a value is a lease that a store of this copy of the library has made, and no copy of one. */
export function isSlotLease(value: unknown): value is SlotLease {
  return typeof value === "object" && value !== null && isMade(value);
}

/** What the holder of a lease may stamp, and has stamped. */
export function stampWindow(lease: SlotLease): StampWindow {
  return windowOf(lease);
}

/**
 * What was stamped last, as far as it is known: by a generator of the library, or as the caller says; or
 * nothing, if the holder stamps nothing. Ends all stamping from the lease.
 */
export function lastUseOf(lease: SlotLease, lastUsedMs: number | undefined): number | undefined {
  const window = stampWindow(lease);
  const known = window.layout === undefined ? undefined : window.lastUsedMs;
  if (known !== undefined && lastUsedMs !== undefined && lastUsedMs < known) {
    refuse(
      "release lease",
      `lastUsedMs must not lie before ${known}, the last that an id of the lease has used`,
      lastUsedMs,
    );
  }
  window.close();
  return lastUsedMs ?? known ?? (lease.stamps ? undefined : lease.floorMs - 1);
}
