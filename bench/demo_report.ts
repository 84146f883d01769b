/**
 * What the demo says at its end: what each process gave back, how fast, and whether an id came twice.
 *
 * @module
 */

import type { IdSet } from "./demo_ids.ts";
import type { WorkerReport } from "./demo_pipe.ts";

/** What one process gave back, as it was counted when it arrived, and its own report. */
export interface Share extends WorkerReport {
  /** How many ids. */
  readonly ids: number;
  /** How many ranges. */
  readonly ranges: number;
  /** How many ids the smallest range had. */
  readonly smallest: number;
  /** How many ids the largest range had. */
  readonly largest: number;
}

/** What all processes gave back. */
export interface Drawn {
  /** The shares, in the order of the processes. */
  readonly shares: readonly Share[];
  /** Every id of them. */
  readonly ids: IdSet;
  /** How long it took. */
  readonly durationMs: number;
}

/** The lines to print. The last says how many ids there were, and which came twice. */
export function reportLines(drawn: Drawn, nextValue: bigint): string[] {
  const { shares, ids, durationMs } = drawn;
  const all = total(shares);
  const perSecond = (count: number) => grouped(Math.round(count / durationMs * 1_000));
  const missing = nextValue - 1n - BigInt(ids.size);
  return [
    ...tableLines([
      ["process", "ids", "ranges", "smallest", "largest", "statements"],
      ...shares.map((share, index) => [String(index + 1), ...cells(share)]),
      ["all", ...cells(all)],
    ]),
    "",
    `${perSecond(all.ids)} ids and ${perSecond(all.ranges)} ranges a second`,
    `${grouped(all.retries)} statements repeated, ${grouped(all.conflicts)} answers refused, ` +
    `the slowest statement ${grouped(Math.round(all.slowestMs))} ms`,
    `ids from 1 to ${grouped(nextValue - 1n)}, ${grouped(missing)} missing`,
    "",
    verdict(all.ids, drawn),
  ];
}

function verdict(received: number, { shares, ids: { duplicates } }: Drawn): string {
  const { length } = duplicates;
  const line = `${received} ids from ${shares.length} processes, ${length} duplicate`;
  if (length === 0) return `${line}s`;
  const shown = duplicates.slice(0, 5).join(", ");
  return `${line}${length === 1 ? "" : "s"}: ${shown}${length > 5 ? ", …" : ""}`;
}

function total(shares: readonly Share[]): Share {
  const sum = (of: (share: Share) => number) =>
    shares.reduce((total, share) => total + of(share), 0);
  return {
    ids: sum((share) => share.ids),
    ranges: sum((share) => share.ranges),
    smallest: Math.min(...shares.map((share) => share.smallest)),
    largest: Math.max(...shares.map((share) => share.largest)),
    statements: sum((share) => share.statements),
    retries: sum((share) => share.retries),
    conflicts: sum((share) => share.conflicts),
    slowestMs: Math.max(...shares.map((share) => share.slowestMs)),
  };
}

function cells({ ids, ranges, smallest, largest, statements }: Share): string[] {
  return [ids, ranges, smallest, largest, statements].map(grouped);
}

function tableLines(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]?.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  return rows.map((row) => row.map((cell, at) => cell.padStart(widths?.[at] ?? 0)).join("  "));
}

/** A number as people read it: "1,234,567". */
export function grouped(count: number | bigint): string {
  return count.toLocaleString("en-US");
}
