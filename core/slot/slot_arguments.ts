/**
 * The options of slots, and their checks.
 *
 * @module
 */

import {
  callOptionNames,
  checkBoolean,
  checkCallOptions,
  checkNumber,
  checkText,
  refuse,
} from "../arguments.ts";
import type { CallOptions } from "../runtime.ts";
import type { Dialect } from "../sql/dialect.ts";
import type { SlotLeaseData } from "./slot_lease.ts";

/** The options of an acquire. */
export interface AcquireOptions extends CallOptions {
  /** The namespace: 1 to 100 UTF-16 units of well-formed Unicode without NUL. */
  namespace: string;
  /**
   * How many slots the namespace has, from 1 to 65,536. The first acquire decides it for good: all users
   * of the namespace give the same.
   */
  limit: number;
  /**
   * Who acquires, 1 to 255 UTF-16 units. No two live holders may have the same: who returns with its
   * owner key takes its own slot back, though its lease has not expired. A random UUID unless given.
   */
  ownerKey?: string;
  /** A slot to take if it is free, from 0 to `limit` - 1. */
  preferredSlot?: number;
  /**
   * How long the lease lasts unless it is renewed, in milliseconds, from 1,000 to 86,400,000 (a day).
   *
   * @default {30000}
   */
  ttlMs?: number;
  /**
   * How far the holder's window reaches beyond the expiry of its lease, in milliseconds, from 0 to below
   * `ttlMs`. The first acquire decides it for the namespace.
   *
   * @default {2000}
   */
  toleranceMs?: number;
  /**
   * How far ahead of the database's clock the window of a slot may begin, in milliseconds, from 0 to
   * 172,800,000 (two days). A slot that was used further ahead is not taken, so that holders that crash
   * again and again do not drift into the future.
   *
   * @default {ttlMs + toleranceMs}
   */
  maxAheadMs?: number;
  /**
   * Whether the holder stamps milliseconds of its window, as ids do. If not, as for a job that only one
   * process runs, the whole window goes back with the slot; else, unless the release tells what was
   * stamped last, the next window begins behind it, up to `ttlMs + toleranceMs` ahead of the clock.
   *
   * @default {true}
   */
  stamps?: boolean;
}

/** The options of a hold. */
export interface HoldOptions extends AcquireOptions {
  /**
   * How often the lease is renewed, in milliseconds: below `(ttlMs - marginMs) / 2`, so that a second
   * attempt fits. A third of `ttlMs` unless given, or the most that is allowed if that is less.
   */
  renewEveryMs?: number;
  /**
   * How long before its expiry the lease is no longer trusted, in milliseconds, from 0 to below `ttlMs`:
   * for what the clocks of this machine and of the database may differ in speed. A tenth of `ttlMs`
   * unless given.
   */
  marginMs?: number;
  /**
   * How long a renewal may take, in milliseconds: below `renewEveryMs`. Half of it unless given, or the
   * store's `timeoutMs` if that is less.
   */
  renewTimeoutMs?: number;
  /**
   * Whether the hold renews its lease by itself. Without, as on edge workers, `renew()` has to be called
   * in time.
   *
   * @default {true}
   */
  background?: boolean;
}

/** The options of a release. */
export interface ReleaseOptions extends CallOptions {
  /**
   * The last millisecond that was stamped, since 1970-01-01 UTC, from the lease's `floorMs` - 1 to its
   * `ceilingMs`. The next holder's window begins behind it; without it, behind the ceiling. Where ids
   * were made by the library it is known.
   */
  lastUsedMs?: number;
}

/** The terms of an acquire, checked and complete. */
export interface Terms {
  readonly namespace: string;
  readonly limit: number;
  readonly ownerKey: string;
  readonly preferredSlot: number;
  readonly ttlMs: number;
  readonly toleranceMs: number;
  readonly maxAheadMs: number;
  readonly stamps: boolean;
}

/** How a hold is renewed, checked and complete. */
export interface Renewal {
  readonly renewEveryMs: number;
  readonly marginMs: number;
  readonly renewTimeoutMs: number;
  readonly background: boolean;
}

/** The most slots of a namespace. */
export const maxLimit = 65_536;
const maxNamespaceLength = 100;
const maxOwnerKeyLength = 255;
const leastTtlMs = 1_000;
const maxTtlMs = 86_400_000;
/** The most that a window may lie ahead of the clock, in milliseconds. */
export const maxMaxAheadMs = 172_800_000;
/** The last millisecond that a `Date` can have. */
const maxTimeMs = 8_640_000_000_000_000;

const acquireOptionNames = [
  ...callOptionNames,
  "namespace",
  "limit",
  "ownerKey",
  "preferredSlot",
  "ttlMs",
  "toleranceMs",
  "maxAheadMs",
  "stamps",
];
const renewalOptionNames = ["renewEveryMs", "marginMs", "renewTimeoutMs", "background"];
const releaseOptionNames = [...callOptionNames, "lastUsedMs"];

/** The options of a hold that are not those of a call. */
export const holdOptionNames: readonly string[] = [...acquireOptionNames, ...renewalOptionNames];

type Compared = Pick<Dialect, "name" | "ignoresTrailingSpace">;

/** Checks a namespace. */
export function checkNamespace(action: string, namespace: unknown, dialect: Compared): string {
  const rule = { what: "the namespace", most: maxNamespaceLength, dialect };
  return checkText(action, namespace, rule);
}

/** Checks the options of an acquire. */
export function checkAcquire(
  action: string,
  options: AcquireOptions,
  { dialect, names = acquireOptionNames, uuid }: {
    dialect: Compared;
    names?: readonly string[];
    uuid: () => string;
  },
): Terms {
  checkCallOptions(action, options, names);
  const { ttlMs: ttl = 30_000, toleranceMs: tolerance = 2_000 } = options;
  const namespace = checkNamespace(action, options.namespace, dialect);
  const limit = checkNumber(action, options.limit, { what: "limit", least: 1, most: maxLimit });
  const ttlMs = checkNumber(action, ttl, { what: "ttlMs", least: leastTtlMs, most: maxTtlMs });
  const toleranceMs = checkNumber(action, tolerance, {
    what: `toleranceMs, which is 2,000 unless given and must be below the ttlMs of ${ttlMs},`,
    least: 0,
    most: ttlMs - 1,
  });
  const { maxAheadMs: ahead = ttlMs + toleranceMs } = options;
  const maxAheadMs = checkNumber(action, ahead, {
    what: "maxAheadMs",
    least: 0,
    most: maxMaxAheadMs,
  });
  const preferredSlot = options.preferredSlot === undefined
    ? -1
    : checkNumber(action, options.preferredSlot, {
      what: "preferredSlot",
      least: 0,
      most: limit - 1,
    });
  const ownerKey = options.ownerKey === undefined ? uuid() : checkText(action, options.ownerKey, {
    what: "ownerKey",
    most: maxOwnerKeyLength,
    dialect,
  });
  checkBoolean(action, "stamps", options.stamps);
  const { stamps = true } = options;
  return { namespace, limit, ownerKey, preferredSlot, ttlMs, toleranceMs, maxAheadMs, stamps };
}

/** Checks how a hold is to be renewed. */
export function checkRenewal(
  action: string,
  options: HoldOptions,
  { ttlMs, timeoutMs }: { ttlMs: number; timeoutMs: number },
): Renewal {
  const { marginMs: margin = Math.floor(ttlMs / 10) } = options;
  const marginMs = checkNumber(action, margin, {
    what: `marginMs, which must be below the ttlMs of ${ttlMs},`,
    least: 0,
    most: ttlMs - 1,
  });
  const mostEveryMs = Math.ceil((ttlMs - marginMs) / 2) - 1;
  const second = `, so that a second attempt fits before the lease is no longer trusted`;
  if (mostEveryMs < 2) {
    refuse(action, `ttlMs - marginMs must be at least 5${second}`, ttlMs - marginMs);
  }
  const { renewEveryMs: every = Math.min(Math.floor(ttlMs / 3), mostEveryMs) } = options;
  const renewEveryMs = checkNumber(action, every, {
    what: `renewEveryMs, which must be below (ttlMs - marginMs) / 2${second},`,
    least: 2,
    most: mostEveryMs,
  });
  const usualMs = Math.ceil(Math.min(timeoutMs, Math.floor(renewEveryMs / 2)));
  const { renewTimeoutMs: timeout = usualMs } = options;
  const renewTimeoutMs = checkNumber(action, timeout, {
    what: `renewTimeoutMs, which must be below the renewEveryMs of ${renewEveryMs}${second},`,
    least: 1,
    most: renewEveryMs - 1,
  });
  checkBoolean(action, "background", options.background);
  const { background = true } = options;
  return { renewEveryMs, marginMs, renewTimeoutMs, background };
}

/** Checks a lease, or what was read back of one. */
export function checkLease(action: string, lease: unknown, dialect: Compared): SlotLeaseData {
  const isData = typeof lease === "object" && lease !== null && "ceilingMs" in lease;
  if (!isData) refuse(action, "the lease must be a SlotLease, or what its toJSON gives", lease);
  const given = lease as SlotLeaseData;
  const number = (value: unknown, name: string, [least, most]: readonly [number, number]) =>
    checkNumber(action, value, { what: `${name} of the lease`, least, most });
  const text = (value: unknown, name: string, most: number) =>
    checkText(action, value, { what: `${name} of the lease`, most, dialect });
  checkBoolean(action, "stamps of the lease", given.stamps);
  const ttlMs = number(given.ttlMs, "ttlMs", [leastTtlMs, maxTtlMs]);
  const floorMs = number(given.floorMs, "floorMs", [0, maxTimeMs]);
  return {
    namespace: text(given.namespace, "namespace", maxNamespaceLength),
    slot: number(given.slot, "slot", [0, maxLimit - 1]),
    fence: number(given.fence, "fence", [1, Number.MAX_SAFE_INTEGER]),
    incarnation: text(given.incarnation, "incarnation", 36),
    ownerKey: text(given.ownerKey, "ownerKey", maxOwnerKeyLength),
    ttlMs,
    toleranceMs: number(given.toleranceMs, "toleranceMs", [0, ttlMs - 1]),
    floorMs,
    ceilingMs: number(given.ceilingMs, "ceilingMs", [floorMs, maxTimeMs]),
    stamps: given.stamps ?? true,
  };
}

/** Checks the options of a release, and gives what was stamped last, if that is told. */
export function checkRelease(
  action: string,
  options: ReleaseOptions,
  { floorMs, ceilingMs }: { floorMs: number; ceilingMs: number },
): number | undefined {
  checkCallOptions(action, options, releaseOptionNames);
  if (options.lastUsedMs === undefined) return undefined;
  return checkNumber(action, options.lastUsedMs, {
    what: "lastUsedMs, which must lie within the window of the lease or just before it,",
    least: floorMs - 1,
    most: ceilingMs,
  });
}
