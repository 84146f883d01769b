/**
 * The kit's own assertions, so that it runs under any test runner.
 *
 * @module
 */

/** A rule does not hold. */
export class TckFailure extends Error {
  /** The name of the class. */
  override readonly name = "TckFailure";
}

/** Fails unless the condition holds. */
export function check(condition: boolean, message: string): asserts condition {
  if (!condition) throw new TckFailure(message);
}

/** Fails unless two values are the same, by their structure. */
export function checkEqual(actual: unknown, expected: unknown, message = "the value"): void {
  const [was, wanted] = [describe(actual), describe(expected)];
  check(was === wanted, `${message}: expected ${wanted}, was ${was}`);
}

/** Fails unless the promise rejects with an error of the class; returns the error. */
export async function checkRejects<T extends Error>(
  promise: Promise<unknown>,
  type: abstract new (...parameters: never[]) => T,
): Promise<T> {
  let result: unknown;
  try {
    result = await promise;
  } catch (error) {
    if (error instanceof type) return error;
    const text = error instanceof Error ? `${error.name}: ${error.message}` : describe(error);
    throw new TckFailure(`expected ${type.name}, was ${text}`, { cause: error });
  }
  throw new TckFailure(`expected ${type.name}, nothing was thrown: ${describe(result)}`);
}

/** Fails unless the ranges, in any order, follow each other from `start` without gap or overlap. */
export function checkContiguous(
  ranges: readonly { start: bigint; end: bigint }[],
  start: bigint,
): void {
  let next = start;
  for (const range of ranges.toSorted((a, b) => (a.start < b.start ? -1 : 1))) {
    checkEqual(range.start, next, "the start of the next range");
    check(range.end > range.start, `range ${describe(range)} is empty`);
    next = range.end;
  }
}

function describe(value: unknown): string {
  return JSON.stringify(value, (_key, item) => {
    if (typeof item === "bigint") return `${item}n`;
    if (item === undefined) return "undefined";
    return item instanceof Error ? `${item.name}: ${item.message}` : item;
  });
}
