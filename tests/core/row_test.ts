import { assertEquals, assertThrows } from "@std/assert";
import { ConfigurationError } from "../../core/errors.ts";
import { Row } from "../../core/sql/row.ts";

const encoder = new TextEncoder();

/** A row of one column. */
function row(cell: unknown): Row {
  return new Row(["value"], [cell]);
}

Deno.test("a 64-bit integer is read from every form that drivers give", () => {
  for (
    const [cell, value] of [
      [9_223_372_036_854_775_807n, 9_223_372_036_854_775_807n],
      ["9223372036854775807", 9_223_372_036_854_775_807n],
      ["-9223372036854775808", -9_223_372_036_854_775_808n],
      ["9007199254740993", 9_007_199_254_740_993n],
      [encoder.encode("9007199254740993"), 9_007_199_254_740_993n],
      [9_007_199_254_740_991, 9_007_199_254_740_991n],
      [-5, -5n],
      [0, 0n],
      [-0, 0n],
      ["0", 0n],
    ] as const
  ) assertEquals(row(cell).bigint("value"), value);
});

Deno.test("an integer that was rounded, or is none, is refused rather than read", () => {
  for (
    const cell of [
      9_007_199_254_740_992,
      9_223_372_036_854_775_807,
      1.5,
      NaN,
      Infinity,
      "1.0",
      "1e3",
      "9.007199254740993e15",
      "",
      " 1",
      "0x10",
      "1n",
      "+1",
      "--1",
      true,
      null,
      undefined,
      {},
      [1],
      new Date(0),
      encoder.encode("1.5"),
    ]
  ) assertThrows(() => row(cell).bigint("value"), ConfigurationError, "value");
});

Deno.test("a number is read only if it is a safe integer", () => {
  for (const cell of [15, 15n, "15", encoder.encode("15")]) {
    assertEquals(row(cell).number("value"), 15);
  }
  assertThrows(() => row("9007199254740992").number("value"), ConfigurationError);
  assertThrows(() => row(2n ** 63n).number("value"), ConfigurationError);
  assertThrows(() => row(null).number("value"), ConfigurationError);
});

Deno.test("true and false are read from every form that drivers give", () => {
  const yes = [true, 1, 1n, "t", "true", "1", "\u0001"];
  const no = [false, 0, 0n, "f", "false", "0", "\u0000"];
  const bytes = (cell: unknown) => typeof cell === "string" ? [encoder.encode(cell)] : [];
  for (const cell of [...yes, ...yes.flatMap(bytes)]) {
    assertEquals(row(cell).boolean("value"), true);
  }
  for (const cell of [...no, ...no.flatMap(bytes)]) {
    assertEquals(row(cell).boolean("value"), false);
  }
});

Deno.test("what is neither true nor false is refused", () => {
  for (const cell of [2, -1, 2n, "", "yes", "no", "TRUE", "tr", null, undefined, {}, [], NaN]) {
    assertThrows(() => row(cell).boolean("value"), ConfigurationError, "value");
  }
});

Deno.test("text is read from text and from bytes, and nothing else is text", () => {
  assertEquals(row("größer 🦕").text("value"), "größer 🦕");
  assertEquals(row(encoder.encode("größer 🦕")).text("value"), "größer 🦕");
  for (const cell of [1, 1n, true, null, {}]) {
    assertThrows(() => row(cell).text("value"), ConfigurationError);
  }
  assertThrows(() => row(new Uint8Array([0xff, 0xfe])).text("value"));
});

Deno.test("null is told from a value, and a missing cell is null", () => {
  assertEquals([null, undefined, 0, "", false].map((cell) => row(cell).isNull("value")), [
    true,
    true,
    false,
    false,
    false,
  ]);
});

Deno.test("columns are found by name, in the order in which they came", () => {
  const both = new Row(["a", "b"], ["1", "2"]);
  assertEquals([both.text("b"), both.text("a")], ["2", "1"]);
});

Deno.test("a column that the result does not have is refused by name", () => {
  for (const read of ["isNull", "bigint", "number", "text", "boolean"] as const) {
    assertThrows(() => row("1")[read]("nextValue"), ConfigurationError, '"nextValue"');
  }
});

Deno.test("what a driver returned is in no message", () => {
  const error = assertThrows(() => row("s3cr3t").bigint("value"), ConfigurationError);
  assertEquals(error.message.includes("s3cr3t"), false);
});
