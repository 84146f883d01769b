/**
 * Checks of what callers pass in. Each throws an `InvalidArgumentError` that says what is wrong,
 * which value it was and what is allowed, before anything is sent.
 *
 * @module
 */

import { InvalidArgumentError } from "./errors.ts";
import type { CallOptions } from "./runtime.ts";
import { maxValue } from "./sql/dialect.ts";
import { show } from "./sql/statement.ts";

/** The longest key of a range, in UTF-16 units. */
const maxKeyLength = 255;
/** The longest time that a timer can be set for. */
const maxTimeoutMs = 2_147_483_647;

/** Throws an error of the standard form. */
export function refuse(action: string, reason: string, value: unknown): never {
  throw new InvalidArgumentError(`Cannot ${action}: ${reason}: received ${show(value)}`);
}

/** A key: 1 to 255 UTF-16 units of well-formed Unicode without NUL, that the database can compare. */
export function checkKey(
  action: string,
  key: unknown,
  dialect: { readonly name: string; readonly ignoresTrailingSpace: boolean },
): string {
  return checkText(action, key, { what: "the key", most: maxKeyLength, dialect });
}

/** A text that is compared: well-formed Unicode without NUL, of a length within bounds. */
export function checkText(
  action: string,
  text: unknown,
  { what, most, dialect }: {
    what: string;
    most: number;
    dialect: { readonly name: string; readonly ignoresTrailingSpace: boolean };
  },
): string {
  if (typeof text !== "string") refuse(action, `${what} must be a string`, text);
  if (text.length < 1 || text.length > most) {
    refuse(action, `${what} must have 1 to ${most} UTF-16 units, it has ${text.length}`, text);
  }
  if (text.includes("\0")) refuse(action, `${what} must not contain NUL`, text);
  if (!text.isWellFormed()) refuse(action, `${what} must not contain a lone surrogate`, text);
  if (dialect.ignoresTrailingSpace && text.endsWith(" ")) {
    refuse(action, `${what} must not end in a space, which ${dialect.name} ignores`, text);
  }
  return text;
}

/** An integer, as a bigint or a safe number, within bounds. An unsafe number is not rounded. */
export function checkInteger(
  action: string,
  value: unknown,
  bounds: { what: string; least: bigint; most?: bigint },
): bigint {
  const { what, least, most = maxValue } = bounds;
  if (typeof value !== "bigint" && !Number.isSafeInteger(value)) {
    refuse(action, `${what} must be a bigint or a safe integer`, value);
  }
  const integer = BigInt(value as bigint | number);
  if (integer < least || integer > most) {
    refuse(action, `${what} must be from ${least} to ${most}`, value);
  }
  return integer;
}

/** An integer that is given as a number, within bounds. */
export function checkNumber(
  action: string,
  value: unknown,
  { what, least, most }: { what: string; least: number; most: number },
): number {
  if (!Number.isSafeInteger(value)) {
    refuse(action, `${what} must be an integer from ${least} to ${most}`, value);
  }
  const number = Number(value);
  if (number < least || number > most) {
    refuse(action, `${what} must be from ${least} to ${most}`, value);
  }
  return number;
}

/** The names of the options that every call takes. */
export const callOptionNames: readonly string[] = ["timeoutMs", "signal"];

/** The options of a call: known names, a timeout within its bounds, a signal that is one. */
export function checkCallOptions(
  action: string,
  options: unknown,
  names: readonly string[] = callOptionNames,
): asserts options is CallOptions {
  checkOptions(action, options, names);
  const { timeoutMs, signal } = options as CallOptions;
  checkTimeout(action, timeoutMs);
  checkSignal(action, signal);
}

/** An options object without unknown names. */
export function checkOptions(action: string, options: unknown, names: readonly string[]): void {
  if (typeof options !== "object" || options === null) {
    refuse(action, "the options must be an object", options);
  }
  for (const name of Object.keys(options)) {
    if (!names.includes(name)) {
      refuse(action, `the options are ${names.join(", ")}`, name);
    }
  }
}

/** A timeout in milliseconds, if it is given. */
export function checkTimeout(action: string, timeoutMs: unknown): void {
  if (timeoutMs === undefined) return;
  if (typeof timeoutMs !== "number" || !(timeoutMs >= 1 && timeoutMs <= maxTimeoutMs)) {
    refuse(action, `timeoutMs must be a number from 1 to ${maxTimeoutMs}`, timeoutMs);
  }
}

/** A signal, if it is given. */
export function checkSignal(action: string, signal: unknown): void {
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    refuse(action, "signal must be an AbortSignal", signal);
  }
}

/** An option that is true or false, if it is given. */
export function checkBoolean(action: string, name: string, value: unknown): void {
  if (value !== undefined && typeof value !== "boolean") {
    refuse(action, `${name} must be true or false`, value);
  }
}

/** An option that is one of a few words, if it is given. */
export function checkOneOf(
  action: string,
  value: unknown,
  choice: { name: string; allowed: readonly string[] },
): void {
  if (value !== undefined && !choice.allowed.includes(value as string)) {
    refuse(action, `${choice.name} must be ${choice.allowed.join(" or ")}`, value);
  }
}
