import { assertEquals, assertThrows } from "@std/assert";
import {
  checkBoolean,
  checkCallOptions,
  checkInteger,
  checkKey,
  checkOneOf,
  checkOptions,
  checkSignal,
  checkTimeout,
} from "../../core/arguments.ts";
import { InvalidArgumentError } from "../../core/errors.ts";

const action = "reserve range";
const max = 9_223_372_036_854_775_807n;

/** Expects a refusal that says what was to be done, what is allowed and what was received. */
function assertRefused(check: () => unknown, allowed: string, received: string): void {
  const { message } = assertThrows(check, InvalidArgumentError);
  assertEquals(message, `Cannot ${action}: ${allowed}: received ${received}`);
}

const exact = { name: "exact", ignoresTrailingSpace: false };

Deno.test("a key of 1 to 255 UTF-16 units is taken as it is", () => {
  for (
    const key of ["a", " ", "a ", "größe", "🦕", "🦕".repeat(127), "x".repeat(255), "\n", "'\""]
  ) {
    assertEquals(checkKey(action, key, exact), key);
  }
});

Deno.test("what is no key is refused with its fault", () => {
  const long = "x".repeat(256);
  for (
    const [key, allowed, received] of [
      ["", "the key must have 1 to 255 UTF-16 units, it has 0", '""'],
      [long, "the key must have 1 to 255 UTF-16 units, it has 256", `"${"x".repeat(76)}...`],
      [
        "🦕".repeat(128),
        "the key must have 1 to 255 UTF-16 units, it has 256",
        `"${"🦕".repeat(38)}...`,
      ],
      ["a\0b", "the key must not contain NUL", '"a\\u0000b"'],
      ["a\ud800b", "the key must not contain a lone surrogate", '"a\\ud800b"'],
      ["\udc00", "the key must not contain a lone surrogate", '"\\udc00"'],
      [5, "the key must be a string", "5"],
      [null, "the key must be a string", "null"],
      [undefined, "the key must be a string", "undefined"],
      [["a"], "the key must be a string", "an array"],
    ] as const
  ) assertRefused(() => checkKey(action, key, exact), allowed, received);
});

Deno.test("an integer is a bigint or a safe number within its bounds", () => {
  const bounds = { what: "the size", least: 1n };
  for (const value of [1, 1n, 9_007_199_254_740_991, max]) {
    assertEquals(checkInteger(action, value, bounds), BigInt(value));
  }
  assertEquals(checkInteger(action, 0, { what: "it", least: 0n, most: 0n }), 0n);
});

Deno.test("a number that is not safe is refused rather than rounded", () => {
  for (
    const [value, received] of [
      [9_007_199_254_740_992, "9007199254740992"],
      [1e300, "1e+300"],
      [1.5, "1.5"],
      [NaN, "NaN"],
      [Infinity, "Infinity"],
      ["1", '"1"'],
      [true, "true"],
      [null, "null"],
      [undefined, "undefined"],
      [new Date(0), "an object"],
    ] as const
  ) {
    assertRefused(
      () => checkInteger(action, value, { what: "the size", least: 1n }),
      "the size must be a bigint or a safe integer",
      received,
    );
  }
});

Deno.test("an integer outside its bounds is refused with both of them", () => {
  const bounds = { what: "the size", least: 1n };
  for (const [value, received] of [[0, "0"], [-1, "-1"], [0n, "0n"], [max + 1n, `${max + 1n}n`]]) {
    assertRefused(
      () => checkInteger(action, value, bounds),
      `the size must be from 1 to ${max}`,
      String(received),
    );
  }
  assertRefused(
    () => checkInteger(action, 6, { what: "initialOffset", least: 0n, most: 5n }),
    "initialOffset must be from 0 to 5",
    "6",
  );
});

Deno.test("options without unknown names are taken, also without any", () => {
  checkOptions(action, {}, []);
  checkOptions(action, { a: 1 }, ["a", "b"]);
  checkOptions(action, Object.create(null), ["a"]);
  checkCallOptions(action, { timeoutMs: 1, signal: new AbortController().signal });
  checkCallOptions(action, { timeoutMs: undefined, signal: undefined });
  checkCallOptions(action, { initialOffset: 1 }, ["initialOffset"]);
});

Deno.test("an unknown option is refused with the names that there are", () => {
  assertRefused(
    () => checkOptions(action, { c: 1 }, ["a", "b"]),
    "the options are a, b",
    '"c"',
  );
  assertRefused(
    () => checkCallOptions(action, { timeout: 1 }),
    "the options are timeoutMs, signal",
    '"timeout"',
  );
});

Deno.test("options that are no object are refused", () => {
  for (const [options, received] of [[null, "null"], [5, "5"], ["a", '"a"']] as const) {
    assertRefused(
      () => checkOptions(action, options, ["a"]),
      "the options must be an object",
      received,
    );
  }
});

Deno.test("a timeout is a number of milliseconds that a timer can be set for", () => {
  for (const timeoutMs of [undefined, 1, 1.5, 2_147_483_647]) checkTimeout(action, timeoutMs);
  for (
    const [timeoutMs, received] of [
      [0, "0"],
      [0.5, "0.5"],
      [-1, "-1"],
      [2_147_483_648, "2147483648"],
      [NaN, "NaN"],
      [Infinity, "Infinity"],
      ["5", '"5"'],
      [5n, "5n"],
      [null, "null"],
    ] as const
  ) {
    const allowed = "timeoutMs must be a number from 1 to 2147483647";
    assertRefused(() => checkTimeout(action, timeoutMs), allowed, received);
    assertRefused(() => checkCallOptions(action, { timeoutMs }), allowed, received);
  }
});

Deno.test("a signal is an AbortSignal", () => {
  checkSignal(action, undefined);
  checkSignal(action, AbortSignal.abort());
  for (const [signal, received] of [[{ aborted: false }, "an object"], [null, "null"]] as const) {
    const allowed = "signal must be an AbortSignal";
    assertRefused(() => checkSignal(action, signal), allowed, received);
    assertRefused(() => checkCallOptions(action, { signal }), allowed, received);
  }
});

Deno.test("a switch is true or false", () => {
  for (const value of [undefined, true, false]) checkBoolean(action, "prepare", value);
  for (const [value, received] of [[0, "0"], ["true", '"true"'], [null, "null"]] as const) {
    const allowed = "prepare must be true or false";
    assertRefused(() => checkBoolean(action, "prepare", value), allowed, received);
  }
});

Deno.test("a choice is one of its words", () => {
  const choice = { name: "fetchPlan", allowed: ["statement", "transaction"] };
  for (const value of [undefined, "statement", "transaction"]) checkOneOf(action, value, choice);
  for (
    const [value, received] of [["Statement", '"Statement"'], [1, "1"], [null, "null"]] as const
  ) {
    const allowed = "fetchPlan must be statement or transaction";
    assertRefused(() => checkOneOf(action, value, choice), allowed, received);
  }
});
