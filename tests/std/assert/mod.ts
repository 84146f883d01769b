/**
 * Stands in for `@std/assert` where JSR cannot be reached. What is here has the name and the
 * signature of the real one, so that the `links` line in deno.json can go without another change.
 * Every failure is an {@linkcode AssertionError}.
 *
 * @module
 */
import strict from "node:assert/strict";

/** A class whose instances are `T`, whatever its constructor takes. */
export type Class<T> = abstract new (...args: never[]) => T;

/** What a failed assertion throws. */
export class AssertionError extends Error {
  override name = "AssertionError";
}

/** Fails always. */
export function fail(msg?: string): never {
  throw new AssertionError(msg === undefined ? "Failed assertion." : `Failed assertion: ${msg}`);
}

/** Fails unless `expr` is truthy. */
export function assert(expr: unknown, msg = ""): asserts expr {
  if (!expr) throw new AssertionError(msg);
}

/** Fails unless both are equal, deeply. */
export function assertEquals<T>(actual: T, expected: T, msg?: string): void {
  compare(() => strict.deepStrictEqual(actual, expected), msg);
}

/** Fails if both are equal, deeply. */
export function assertNotEquals<T>(actual: T, expected: T, msg?: string): void {
  compare(() => strict.notDeepStrictEqual(actual, expected), msg);
}

/** Fails unless both are the same value, by `Object.is`. */
export function assertStrictEquals<T>(
  actual: unknown,
  expected: T,
  msg?: string,
): asserts actual is T {
  compare(() => strict.strictEqual(actual, expected), msg);
}

/** Fails if `actual` is null or undefined. */
export function assertExists<T>(actual: T, msg?: string): asserts actual is NonNullable<T> {
  verify(actual !== undefined && actual !== null, () => `${show(actual)} does not exist`, msg);
}

/** Fails unless `actual` contains `expected`. */
export function assertStringIncludes(actual: string, expected: string, msg?: string): void {
  verify(actual.includes(expected), () => `${show(actual)} lacks ${show(expected)}`, msg);
}

/** Fails unless `expected` matches `actual`. */
export function assertMatch(actual: string, expected: RegExp, msg?: string): void {
  verify(actual.search(expected) !== -1, () => `${show(actual)} is not like ${expected}`, msg);
}

/** Fails unless `actual` is an instance of `expectedType`. */
export function assertInstanceOf<T>(
  actual: unknown,
  expectedType: Class<T>,
  msg = "",
): asserts actual is T {
  const wrong = () => `${show(actual)} is not an instance of ${expectedType.name}`;
  verify(actual instanceof expectedType, wrong, msg);
}

/** Fails unless `actual > expected`. */
export function assertGreater<T>(actual: T, expected: T, msg?: string): void {
  verify(actual > expected, () => `${show(actual)} > ${show(expected)} is false`, msg);
}

/** Fails unless `actual >= expected`. */
export function assertGreaterOrEqual<T>(actual: T, expected: T, msg?: string): void {
  verify(actual >= expected, () => `${show(actual)} >= ${show(expected)} is false`, msg);
}

/** Fails unless `actual < expected`. */
export function assertLess<T>(actual: T, expected: T, msg?: string): void {
  verify(actual < expected, () => `${show(actual)} < ${show(expected)} is false`, msg);
}

/** Fails unless `actual <= expected`. */
export function assertLessOrEqual<T>(actual: T, expected: T, msg?: string): void {
  verify(actual <= expected, () => `${show(actual)} <= ${show(expected)} is false`, msg);
}

/** Fails unless `fn` throws; returns what it threw. */
export function assertThrows(fn: () => unknown, msg?: string): unknown;
/** Fails unless `fn` throws an error of this class; returns it. */
export function assertThrows<E extends Error = Error>(
  fn: () => unknown,
  ErrorClass: Class<E>,
  msgIncludes?: string,
  msg?: string,
): E;
export function assertThrows(
  fn: () => unknown,
  classOrMsg?: Class<Error> | string,
  msgIncludes?: string,
  msg?: string,
): unknown {
  try {
    fn();
  } catch (error) {
    return expected(error, classOrMsg, msgIncludes, msg);
  }
  fail(`Expected function to throw${suffix(typeof classOrMsg === "string" ? classOrMsg : msg)}`);
}

/** Fails unless the promise of `fn` rejects; resolves with the reason. */
export function assertRejects(fn: () => PromiseLike<unknown>, msg?: string): Promise<unknown>;
/** Fails unless the promise of `fn` rejects with an error of this class; resolves with it. */
export function assertRejects<E extends Error = Error>(
  fn: () => PromiseLike<unknown>,
  ErrorClass: Class<E>,
  msgIncludes?: string,
  msg?: string,
): Promise<E>;
export async function assertRejects(
  fn: () => PromiseLike<unknown>,
  classOrMsg?: Class<Error> | string,
  msgIncludes?: string,
  msg?: string,
): Promise<unknown> {
  let promise: PromiseLike<unknown> | undefined;
  try {
    promise = fn();
    await promise;
  } catch (error) {
    if (promise === undefined) fail(`Function throws when expected to reject: ${show(error)}`);
    return expected(error, classOrMsg, msgIncludes, msg);
  }
  fail(`Expected function to reject${suffix(typeof classOrMsg === "string" ? classOrMsg : msg)}`);
}

function expected(
  error: unknown,
  classOrMsg: Class<Error> | string | undefined,
  msgIncludes = "",
  msg?: string,
): unknown {
  if (typeof classOrMsg !== "function") return error;
  assertInstanceOf(error, classOrMsg, msg);
  assertStringIncludes(error.message, msgIncludes, msg);
  return error;
}

function compare(check: () => void, msg?: string): void {
  try {
    check();
  } catch (error) {
    if (!(error instanceof strict.AssertionError)) throw error;
    throw new AssertionError(error.message + suffix(msg));
  }
}

function verify(holds: boolean, wrong: () => string, msg?: string): void {
  if (!holds) throw new AssertionError(wrong() + suffix(msg));
}

function suffix(msg?: string): string {
  return msg ? `: ${msg}` : "";
}

function show(value: unknown): string {
  if (value instanceof Error) return value.stack ?? String(value);
  return typeof value === "string" ? JSON.stringify(value) : String(value);
}
