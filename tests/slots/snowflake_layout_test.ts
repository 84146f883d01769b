import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { InvalidArgumentError } from "../../core/errors.ts";
import {
  checkLayout,
  exhaustedMs,
  idBits,
  parseSnowflakeId,
  safeIntegerLayout,
  sameLayout,
  type SnowflakeLayout,
  snowflakeLayout,
} from "../../core/id/snowflake_layout.ts";

const custom: readonly SnowflakeLayout[] = [
  { epochMs: 0, timeBits: 33, slotBits: 0, sequenceBits: 20, unitMs: 1_000 },
  { epochMs: 1_700_000_000_000, timeBits: 25, slotBits: 16, sequenceBits: 22, unitMs: 60_000 },
  { epochMs: 1_700_000_000_123, timeBits: 39, slotBits: 16, sequenceBits: 8, unitMs: 10 },
  { epochMs: 5, timeBits: 1, slotBits: 1, sequenceBits: 1, unitMs: 1 },
];
const layouts = [snowflakeLayout, safeIntegerLayout, ...custom];

/** The id of some parts, added up bit by bit from their meaning. */
function idOf(layout: SnowflakeLayout, parts: { unit: bigint; slot: bigint; sequence: bigint }) {
  const { slotBits, sequenceBits } = layout;
  return (parts.unit * 2n ** BigInt(slotBits) + parts.slot) * 2n ** BigInt(sequenceBits) +
    parts.sequence;
}

/** The error with which a layout is refused. */
function refusal(layout: unknown): string {
  return assertThrows(() => checkLayout("open snowflake ids", layout), InvalidArgumentError)
    .message;
}

Deno.test("the presets have 63 and 53 bits, 41 of them milliseconds, and cannot be changed", () => {
  assertEquals([idBits(snowflakeLayout), idBits(safeIntegerLayout)], [63, 53]);
  for (const preset of [snowflakeLayout, safeIntegerLayout]) {
    assertEquals([preset.timeBits, preset.unitMs, Object.isFrozen(preset)], [41, 1, true]);
    assertEquals(new Date(preset.epochMs).toISOString(), "2019-12-24T16:00:00.000Z");
  }
});

Deno.test("the presets run out 2 ** 41 milliseconds after their epoch", () => {
  for (const preset of [snowflakeLayout, safeIntegerLayout]) {
    assertEquals(exhaustedMs(preset), 1_577_203_200_000 + 2 ** 41);
    assertEquals(new Date(exhaustedMs(preset)).getUTCFullYear(), 2089);
  }
});

Deno.test("a layout runs out after as many units as its bits count", () => {
  const layout = { epochMs: 1_000, timeBits: 3, slotBits: 1, sequenceBits: 1, unitMs: 250 };
  assertEquals(exhaustedMs(layout), 1_000 + 8 * 250);
});

Deno.test("a layout that outlasts what a date can be ends with it", () => {
  const layout = { epochMs: 0, timeBits: 60, slotBits: 1, sequenceBits: 1, unitMs: 60_000 };
  assertEquals(new Date(exhaustedMs(layout)).getTime(), 8_640_000_000_000_000);
});

Deno.test("the parts of an id are those that it was made of, in every format", () => {
  for (const layout of layouts) {
    const { timeBits, slotBits, sequenceBits, epochMs, unitMs } = layout;
    const ends = (bits: number) => [...new Set([0n, 1n, 2n ** BigInt(bits) - 1n])];
    const units = ends(timeBits).filter((unit) => unit < 2n ** 40n || unitMs === 1);
    for (const unit of units) {
      for (const slot of slotBits === 0 ? [0n] : ends(slotBits)) {
        for (const sequence of ends(sequenceBits)) {
          const id = idOf(layout, { unit, slot, sequence });
          const parts = {
            timestampMs: epochMs + Number(unit) * unitMs,
            slot: Number(slot),
            sequence: Number(sequence),
          };
          assertEquals(parseSnowflakeId(id, layout), parts);
          assertEquals(parseSnowflakeId(id.toString(), layout), parts);
          if (id <= BigInt(Number.MAX_SAFE_INTEGER)) {
            assertEquals(parseSnowflakeId(Number(id), layout), parts);
          }
        }
      }
    }
  }
});

Deno.test("what is no id of the layout is refused with what one is", () => {
  const bad: readonly unknown[] = [
    ...[-1n, -1, "-1", "+1", "", " 1", "1 ", "12a", "0x1f", "1.5", "1e3", "१२"],
    ...[1.5, NaN, Infinity, 2 ** 53, 2n ** 63n, String(2n ** 63n), "12345678901234567890"],
    ...[null, undefined, true, {}, [1], Symbol("id")],
  ];
  for (const id of bad) {
    const { message } = assertThrows(
      () => parseSnowflakeId(id as bigint, snowflakeLayout),
      InvalidArgumentError,
      "Cannot parse id: the id",
    );
    assertStringIncludes(message, ": received ");
  }
  for (const layout of layouts) {
    const tooLarge = 2n ** BigInt(idBits(layout));
    assertThrows(() => parseSnowflakeId(tooLarge, layout), InvalidArgumentError);
    assertThrows(() => parseSnowflakeId(String(tooLarge), layout), InvalidArgumentError);
    parseSnowflakeId(tooLarge - 1n, layout);
  }
});

Deno.test("bits that add up to more than 63 are refused, and 63 are not", () => {
  const layout = { epochMs: 0, timeBits: 42, slotBits: 10, sequenceBits: 12, unitMs: 1 };
  const message = refusal(layout);
  assertStringIncludes(message, "at most 63");
  assertStringIncludes(message, "received 64");
  assertEquals(idBits(checkLayout("open", { ...layout, timeBits: 41 })), 63);
  assertThrows(() => parseSnowflakeId(1n, layout), InvalidArgumentError, "at most 63");
});

Deno.test("a value that a layout does not allow is refused with the bounds", () => {
  const bad: Readonly<Record<string, { values: readonly unknown[]; bounds: string }>> = {
    epochMs: { values: [-1, 8.64e15 + 1], bounds: "from 0 to 8640000000000000" },
    timeBits: { values: [0, 63, -1], bounds: "from 1 to 62" },
    slotBits: { values: [-1, 17], bounds: "from 0 to 16" },
    sequenceBits: { values: [0, 23], bounds: "from 1 to 22" },
    unitMs: { values: [0, -1, 60_001], bounds: "from 1 to 60000" },
  };
  assertEquals(Object.keys(bad).sort(), Object.keys(snowflakeLayout).sort());
  for (const [name, { values, bounds }] of Object.entries(bad)) {
    for (const value of values) {
      const message = refusal({ ...snowflakeLayout, [name]: value });
      assertStringIncludes(message, `${name} of the layout must be ${bounds}: received ${value}`);
    }
    for (const value of [undefined, null, 1.5, "5", NaN, Infinity, {}, true]) {
      assertStringIncludes(refusal({ ...snowflakeLayout, [name]: value }), `${name} of the layout`);
    }
  }
});

Deno.test("what is no layout, or has a name that none has, is refused", () => {
  for (const layout of [null, undefined, 5, "snowflake"]) {
    assertStringIncludes(refusal(layout), "must be an object");
  }
  const message = refusal({ ...snowflakeLayout, machineBits: 10 });
  for (const name of Object.keys(snowflakeLayout)) assertStringIncludes(message, name);
  assert(message.endsWith('received "machineBits"'), message);
});

Deno.test("a layout that was checked no longer changes with the object that was given", () => {
  const given = { ...snowflakeLayout };
  const checked = checkLayout("open", given);
  given.slotBits = 3;
  assertEquals(checked.slotBits, 10);
  assert(Object.isFrozen(checked));
});

Deno.test("two layouts are the same if every number of them is", () => {
  assert(sameLayout(snowflakeLayout, { ...snowflakeLayout }));
  for (const name of Object.keys(snowflakeLayout) as (keyof SnowflakeLayout)[]) {
    const other = { ...snowflakeLayout, [name]: snowflakeLayout[name] + 1 };
    assert(!sameLayout(snowflakeLayout, other), name);
    assert(!sameLayout(other, snowflakeLayout), name);
  }
});
