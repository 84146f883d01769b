/**
 * What the demo says at its end: what each process gave back, how fast, which ids nobody gave back and
 * why, and whether an id came twice.
 *
 * A range that the killed process had reserved, and had not yet given, is a gap and not a fault. How
 * large it is cannot be asked of a process that is dead: it is what nobody gave, less what the others
 * say that they reserved and of which not all arrived. What is more than the killed process can have
 * had under way is missing, too.
 *
 * @module
 */

import type { WorkerReport } from "./demo_pipe.ts";
import type { ReceivedIds } from "./demo_workers.ts";

/** What one process gave back, as it was counted when it arrived, and its own report. */
export interface Share {
  /** Which process, from 1 up. */
  readonly number: number;
  /** Its slot, once it had one. */
  readonly slot: number | undefined;
  /** How many ids of ranges. */
  readonly ids: number;
  /** How many ranges. */
  readonly ranges: number;
  /** How many ids the smallest range had. */
  readonly smallest: number;
  /** How many ids the largest range had. */
  readonly largest: number;
  /** How many snowflake ids. */
  readonly snowflakes: number;
  /** What it says itself; undefined if it was killed. */
  readonly report: WorkerReport | undefined;
}

/** What all processes gave back. */
export interface Drawn {
  /** The shares, in the order of the processes. */
  readonly shares: readonly Share[];
  /** Every id of them. */
  readonly ids: ReceivedIds;
  /** How many processes drew at a time. */
  readonly processes: number;
  /** How many ids of ranges a process may at most have reserved and not yet given. */
  readonly mostUnderWay: number;
  /** When the process was killed, and when the one in its place began, since the beginning. */
  readonly replaced: { readonly killedMs: number; readonly begunMs: number };
  /** How long it took. */
  readonly durationMs: number;
}

/** The lines to print. The last says how many ids there were, and which came twice. */
export function reportLines(drawn: Drawn, nextValue: bigint): string[] {
  const { shares, ids, durationMs } = drawn;
  const all = total(shares);
  const perSecond = (count: number) => grouped(Math.round(count / durationMs * 1_000));
  const { retries, conflicts, slowestMs } = all.report;
  const { missing, gap } = unreported(drawn, nextValue);
  return [
    ...tableLines([
      ["process", "slot", "snowflakes", "range ids", "ranges", "sizes", "statements"],
      ...shares.map((share) => [nameOf(share), String(share.slot ?? unknown), ...cells(share)]),
      ["all", "", ...cells(all)],
    ]),
    "",
    `${perSecond(all.snowflakes)} snowflake ids, ${perSecond(all.ids)} range ids and ` +
    `${perSecond(all.ranges)} ranges a second`,
    `${grouped(retries)} statements repeated, ${grouped(conflicts)} answers refused, ` +
    `the slowest statement ${grouped(Math.round(slowestMs))} ms`,
    ...replacementLines(drawn, gap),
    `range ids from 1 to ${grouped(nextValue - 1n)}, ${grouped(missing)} missing`,
    "",
    verdict(drawn, ids.ranges.duplicates.concat(ids.snowflakes.duplicates)),
  ];
}

/** Where there is no answer. */
const unknown = "-";

/** The ids of ranges that were reserved and that nobody gave: missing, or the gap of who was killed. */
function unreported(
  { shares, ids, mostUnderWay }: Drawn,
  nextValue: bigint,
): { missing: bigint; gap: bigint } {
  const all = nextValue - 1n - BigInt(ids.ranges.size);
  let missing = 0n;
  let most = 0n;
  for (const { ids, report } of shares) {
    if (report === undefined) most += BigInt(mostUnderWay);
    else missing += BigInt(Math.max(0, report.reserved - ids));
  }
  const rest = all - missing;
  // Below 0 as well: then something was given that was never reserved.
  const gap = rest > most ? most : rest < 0n ? 0n : rest;
  return { missing: all - gap, gap };
}

function replacementLines({ shares, replaced }: Drawn, gap: bigint): string[] {
  const killed = shares.find(({ report }) => report === undefined);
  const next = shares.at(-1);
  if (killed === undefined || next === undefined) return [];
  const seconds = (ms: number) => (ms / 1_000).toFixed(1);
  const whose = killed.slot === next.slot ? "its slot" : `slot ${next.slot}`;
  return [
    `process ${killed.number} was killed after ${seconds(replaced.killedMs)} s, ` +
    `process ${next.number} drew from ${whose} after ${seconds(replaced.begunMs)} s`,
    gap === 0n
      ? `process ${killed.number} left no gap in the range ids`
      : `process ${killed.number} left a gap of ${
        grouped(gap)
      } range ids: reserved and never given`,
  ];
}

function verdict({ shares, processes }: Drawn, duplicates: readonly bigint[]): string {
  const { length } = duplicates;
  const { ids, snowflakes } = total(shares);
  const line = `${ids + snowflakes} ids from ${processes} processes, ${length} duplicate`;
  if (length === 0) return `${line}s`;
  const shown = duplicates.slice(0, 5).join(", ");
  return `${line}${length === 1 ? "" : "s"}: ${shown}${length > 5 ? ", …" : ""}`;
}

type Total = Omit<Share, "number" | "slot" | "report"> & { readonly report: WorkerReport };

function total(shares: readonly Share[]): Total {
  const reports = shares.flatMap(({ report }) => report ?? []);
  const sum = <T>(of: readonly T[], count: (one: T) => number) =>
    of.reduce((total, one) => total + count(one), 0);
  return {
    ids: sum(shares, ({ ids }) => ids),
    ranges: sum(shares, ({ ranges }) => ranges),
    smallest: Math.min(...shares.map(({ smallest }) => smallest)),
    largest: Math.max(...shares.map(({ largest }) => largest)),
    snowflakes: sum(shares, ({ snowflakes }) => snowflakes),
    report: {
      reserved: sum(reports, ({ reserved }) => reserved),
      statements: sum(reports, ({ statements }) => statements),
      retries: sum(reports, ({ retries }) => retries),
      conflicts: sum(reports, ({ conflicts }) => conflicts),
      slowestMs: Math.max(0, ...reports.map(({ slowestMs }) => slowestMs)),
    },
  };
}

function nameOf({ number, report }: Share): string {
  return report === undefined ? `${number} killed` : String(number);
}

function cells({ snowflakes, ids, ranges, smallest, largest, report }: Total | Share): string[] {
  return [
    grouped(snowflakes),
    grouped(ids),
    grouped(ranges),
    ranges === 0 ? unknown : `${grouped(smallest)} to ${grouped(largest)}`,
    report === undefined ? unknown : grouped(report.statements),
  ];
}

function tableLines(rows: readonly (readonly string[])[]): string[] {
  const widths = rows[0]?.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  return rows.map((row) => row.map((cell, at) => cell.padStart(widths?.[at] ?? 0)).join("  "));
}

/** A number as people read it: "1,234,567". */
export function grouped(count: number | bigint): string {
  return count.toLocaleString("en-US");
}
