/**
 * How the bits of a snowflake id are shared out.
 *
 * ```text
 *   0 | time: units since the epoch | slot | sequence
 * ```
 *
 * The form is Twitter's Snowflake of 2010. All who make ids for one column must have the same layout,
 * and the same namespace.
 *
 * @module
 */

import { checkInteger, checkNumber, refuse } from "../arguments.ts";

/** How the bits of an id are shared out. */
export interface SnowflakeLayout {
  /** The time that counts as 0, in milliseconds since 1970-01-01 UTC. */
  readonly epochMs: number;
  /** How many bits count the units since the epoch, from 1 to 62. */
  readonly timeBits: number;
  /** How many bits hold the slot, from 0 to 16. */
  readonly slotBits: number;
  /** How many bits count the ids of one unit, from 1 to 22. */
  readonly sequenceBits: number;
  /** The unit of time in milliseconds, from 1 to 60,000. */
  readonly unitMs: number;
}

/** What an id was made of. */
export interface SnowflakeParts {
  /** The first millisecond of its unit of time, since 1970-01-01 UTC. */
  readonly timestampMs: number;
  /** The slot of the holder that made it. */
  readonly slot: number;
  /** Which of the ids of that unit and slot it is, from 0 up. */
  readonly sequence: number;
}

/** 2019-12-24T16:00:00Z, the epoch of CosId, which may share the namespace. */
const epochMs = 1_577_203_200_000;

/**
 * 63 bits: 41 of milliseconds, which last until 2089, 1,024 slots, 4,096 ids per millisecond and slot.
 */
export const snowflakeLayout: SnowflakeLayout = Object.freeze({
  epochMs,
  timeBits: 41,
  slotBits: 10,
  sequenceBits: 12,
  unitMs: 1,
});

/**
 * 53 bits, which a JavaScript number holds exactly: 41 of milliseconds, which last until 2089, 32 slots,
 * 128 ids per millisecond and slot.
 */
export const safeIntegerLayout: SnowflakeLayout = Object.freeze({
  epochMs,
  timeBits: 41,
  slotBits: 5,
  sequenceBits: 7,
  unitMs: 1,
});

const longestId = 63;
/** The bits of an integer that a number holds exactly. */
export const numberBits = 53;
/** The last millisecond that a `Date` can have. */
const maxDateMs = 8_640_000_000_000_000;

/** How many bits the ids of a layout have. */
export function idBits({ timeBits, slotBits, sequenceBits }: SnowflakeLayout): number {
  return timeBits + slotBits + sequenceBits;
}

/** Checks a layout. */
export function checkLayout(action: string, layout: unknown): SnowflakeLayout {
  const names = ["epochMs", "timeBits", "slotBits", "sequenceBits", "unitMs"];
  if (typeof layout !== "object" || layout === null) {
    refuse(action, "the layout must be an object", layout);
  }
  const unknown = Object.keys(layout).find((name) => !names.includes(name));
  if (unknown !== undefined) refuse(action, `the layout has ${names.join(", ")}`, unknown);
  const given = layout as SnowflakeLayout;
  const integer = (value: unknown, what: string, [least, most]: readonly [number, number]) =>
    checkNumber(action, value, { what, least, most });
  const checked = Object.freeze({
    epochMs: integer(given.epochMs, "epochMs of the layout", [0, maxDateMs]),
    timeBits: integer(given.timeBits, "timeBits of the layout", [1, 62]),
    slotBits: integer(given.slotBits, "slotBits of the layout", [0, 16]),
    sequenceBits: integer(given.sequenceBits, "sequenceBits of the layout", [1, 22]),
    unitMs: integer(given.unitMs, "unitMs of the layout", [1, 60_000]),
  });
  const bits = idBits(checked);
  if (bits > longestId) {
    refuse(action, `the bits of the layout must add up to at most ${longestId}`, bits);
  }
  return checked;
}

/** Whether two layouts make the same ids of the same parts. */
export function sameLayout(one: SnowflakeLayout, other: SnowflakeLayout): boolean {
  return one.epochMs === other.epochMs && one.timeBits === other.timeBits &&
    one.slotBits === other.slotBits && one.sequenceBits === other.sequenceBits &&
    one.unitMs === other.unitMs;
}

/** The first millisecond that a layout has no id for. */
export function exhaustedMs({ epochMs, timeBits, unitMs }: SnowflakeLayout): number {
  return Math.min(maxDateMs, epochMs + 2 ** timeBits * unitMs);
}

/**
 * Takes an id apart.
 *
 * @example
 * ```ts
 * import { parseSnowflakeId, snowflakeLayout } from "@fencepost/store";
 *
 * console.log(parseSnowflakeId(4_194_304_007n, snowflakeLayout));
 * // { timestampMs: 1577203201000, slot: 0, sequence: 7 }
 * ```
 *
 * @param id The id, as a bigint, a safe number or a text of decimal digits.
 * @param layout The layout that it was made with.
 * @throws {InvalidArgumentError} If it is no id of that layout.
 */
export function parseSnowflakeId(
  id: bigint | number | string,
  layout: SnowflakeLayout,
): SnowflakeParts {
  const action = "parse id";
  const checked = checkLayout(action, layout);
  if (typeof id === "string" && !/^[0-9]{1,19}$/.test(id)) {
    refuse(action, "the id must be a text of 1 to 19 decimal digits", id);
  }
  const value = checkInteger(action, typeof id === "string" ? BigInt(id) : id, {
    what: `the id, of ${idBits(checked)} bits,`,
    least: 0n,
    most: 2n ** BigInt(idBits(checked)) - 1n,
  });
  const { slotBits, sequenceBits, epochMs, unitMs } = checked;
  const units = Number(value >> BigInt(slotBits + sequenceBits));
  return {
    timestampMs: epochMs + units * unitMs,
    slot: Number(BigInt.asUintN(slotBits, value >> BigInt(sequenceBits))),
    sequence: Number(BigInt.asUintN(sequenceBits, value)),
  };
}
