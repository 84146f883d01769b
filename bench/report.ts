/**
 * The results of a suite, as one JSON object or as a table.
 *
 * @module
 */

// @ts-types="npm:@types/d3-array@^3.2.2"
import { median, quantile } from "d3-array";
import { callers, type Measured, type Sample } from "./harness.ts";
import type { Comparison } from "./suite.ts";

/** One line of results, medians over the rounds. */
export interface ResultRow {
  /** The candidate. */
  readonly candidate: string;
  /** How many callers there were. */
  readonly concurrency: number;
  /** Operations in a second, of all callers together. */
  readonly opsPerSecond: number;
  /** The median latency of an operation, in milliseconds. */
  readonly p50Ms: number;
  /** The latency that one operation of a hundred exceeds, in milliseconds. */
  readonly p99Ms: number;
}

/** The results of a suite: what `--json` prints. Every suite keeps this form. */
export interface Results {
  /** The suite's name. */
  readonly suite: string;
  /** The versions of what took part, by name. */
  readonly versions: Readonly<Record<string, string>>;
  /** One row for each candidate and number of callers. */
  readonly rows: readonly ResultRow[];
}

/** Above this share of the median, the middle half of the rounds lies too far apart. */
const tooFar = 0.05;

/** The medians over the rounds. */
export function resultRows(measured: readonly Measured[]): readonly ResultRow[] {
  return measured.map(({ candidate, concurrency, samples }) => ({
    candidate,
    concurrency,
    opsPerSecond: round(middle(samples, "opsPerSecond"), 1),
    p50Ms: round(middle(samples, "p50Ms"), 4),
    p99Ms: round(middle(samples, "p99Ms"), 4),
  }));
}

/** The rows as a table, with how far the rounds lay apart. */
export function resultTable(measured: readonly Measured[]): readonly (readonly string[])[] {
  const rows = measured.map(({ candidate, concurrency, samples }) => [
    String(concurrency),
    candidate,
    Math.round(middle(samples, "opsPerSecond")).toLocaleString("en"),
    percent(spread(samples.map(({ opsPerSecond }) => opsPerSecond))),
    middle(samples, "p50Ms").toFixed(3),
    middle(samples, "p99Ms").toFixed(3),
  ]);
  return [["callers", "candidate", "per second", "spread", "p50 ms", "p99 ms"], ...rows];
}

/** The comparisons of a suite, each the median of the rounds' ratios. */
export function comparisonTable(
  measured: readonly Measured[],
  comparisons: readonly Comparison[],
): readonly (readonly string[])[] {
  const rows: string[][] = [];
  for (const { candidate, reference } of comparisons) {
    for (const { samples, concurrency } of measured.filter((one) => one.candidate === candidate)) {
      const beside = measured.find((one) =>
        one.candidate === reference && one.concurrency === concurrency
      );
      if (beside === undefined) continue;
      const ratios = samples.map(({ opsPerSecond }, round) =>
        opsPerSecond / (beside.samples[round]?.opsPerSecond ?? NaN)
      );
      rows.push([
        `${candidate} / ${reference}`,
        callers(concurrency),
        (median(ratios) ?? NaN).toFixed(2),
        percent(spread(ratios)),
      ]);
    }
  }
  return [["ratio", "at", "median", "spread"], ...rows];
}

/** Which rounds lie so far apart that the figures are not to be trusted. */
export function disagreements(measured: readonly Measured[]): readonly string[] {
  return measured.flatMap(({ candidate, concurrency, samples }) => {
    const apart = spread(samples.map(({ opsPerSecond }) => opsPerSecond));
    return apart > tooFar
      ? [`the rounds of ${candidate} at ${callers(concurrency)} disagree by ${percent(apart)}`]
      : [];
  });
}

function middle(samples: readonly Sample[], figure: keyof Sample): number {
  return median(samples, (sample) => sample[figure]) ?? NaN;
}

/** Half the distance between the quartiles, as a share of the median. */
function spread(figures: readonly number[]): number {
  const [low = NaN, mid = NaN, high = NaN] = [0.25, 0.5, 0.75].map((at) => quantile(figures, at));
  return (high - low) / 2 / mid;
}

function percent(share: number): string {
  return `±${(share * 100).toFixed(1)} %`;
}

function round(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}
