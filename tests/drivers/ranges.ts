/**
 * What the tests of all drivers say about ranges.
 *
 * @module
 */

import { assertEquals, assertGreaterOrEqual } from "@std/assert";
import type { Range } from "../../mod.ts";

/** A name that no other test uses. */
export function uniqueName(prefix: string): string {
  return `${prefix}_${crypto.randomUUID().replaceAll("-", "").slice(0, 16)}`;
}

/** The tables of a store, named after that of its ranges. */
export interface OwnTables {
  /** The table of ranges. */
  readonly rangeTable: string;
  /** The table of slots. */
  readonly slotTable: string;
  /** The table of the namespaces of slots. */
  readonly namespaceTable: string;
}

/** Names of tables that no other test uses. */
export function tablesBeside(rangeTable: string): OwnTables {
  return {
    rangeTable,
    slotTable: `${rangeTable}_slot`,
    namespaceTable: `${rangeTable}_namespace`,
  };
}

/** Fails if a value is in two ranges. */
export function assertDisjoint(ranges: readonly Range[]): void {
  const sorted = byStart(ranges);
  sorted.slice(1).forEach(({ start }, index) => {
    assertGreaterOrEqual(start, sorted[index]?.end ?? start, "a value was handed out twice");
  });
}

/** Fails unless the ranges, put in order, go from `start` on without overlap or gap. */
export function assertContiguous(ranges: readonly Range[], start: bigint): void {
  let expected = start;
  for (const range of byStart(ranges)) {
    assertEquals(range.start, expected);
    expected = range.end;
  }
}

/** What fulfilled, and why the others did not. */
export function sorted<T>(
  results: readonly PromiseSettledResult<T>[],
): { values: T[]; errors: unknown[] } {
  const values: T[] = [];
  const errors: unknown[] = [];
  for (const result of results) {
    if (result.status === "fulfilled") values.push(result.value);
    else errors.push(result.reason);
  }
  return { values, errors };
}

/** Fails if a promise has not settled after a time that is far beyond every deadline of a test. */
export async function settles<T>(promise: Promise<T>, what: string): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`Cannot wait any longer for ${what}`)), 40_000);
  });
  try {
    return await Promise.race([promise, limit]);
  } finally {
    clearTimeout(timer);
  }
}

function byStart(ranges: readonly Range[]): Range[] {
  return [...ranges].sort((a, b) => a.start < b.start ? -1 : a.start > b.start ? 1 : 0);
}
