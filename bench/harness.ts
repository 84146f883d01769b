/**
 * Measures candidates beside each other.
 *
 * Machines are noisy and drift, so nothing is measured alone: a round runs every candidate for the
 * same time, one after the other, and the next round starts with the next candidate. What is compared
 * is compared within each round; figures are medians over the rounds. A round of its own before the
 * first warms up connections, prepared statements and the compiler, and is not counted.
 *
 * A caller starts its next operation when its last one has ended. A latency is the time from the start
 * of an operation to the turn in which its caller goes on.
 *
 * @module
 */

import { createHistogram } from "node:perf_hooks";
import { setTimeout } from "node:timers";

/** Something to measure. */
export interface Candidate {
  /** Its name. */
  readonly name: string;
  /**
   * Prepares a run of a number of callers, before it is timed.
   *
   * @returns One operation of a caller, from 0 up; what it resolves with is the work it was to do.
   */
  prepare(callers: number): Promise<(caller: number) => Promise<bigint>>;
}

/** What a candidate did in one round. */
export interface Sample {
  /** Operations in a second. */
  readonly opsPerSecond: number;
  /** The median latency, in milliseconds. */
  readonly p50Ms: number;
  /** The latency that one operation of a hundred exceeds, in milliseconds. */
  readonly p99Ms: number;
}

/** What a candidate did in all rounds at one number of callers. */
export interface Measured {
  /** The candidate's name. */
  readonly candidate: string;
  /** How many callers there were. */
  readonly concurrency: number;
  /** Its samples, one a round; those of the same index were taken beside each other. */
  readonly samples: readonly Sample[];
}

/** How long and how often is measured. */
export interface MeasureOptions {
  /** The numbers of callers. */
  readonly concurrency: readonly number[];
  /** How long a candidate runs in each round, in seconds. */
  readonly seconds: number;
  /** How many rounds are counted. */
  readonly rounds: number;
  /** Ends the measurement early; it rejects with the signal's reason. */
  readonly signal: AbortSignal;
  /** Called before each run, with how many are done and what is next; it is not timed. */
  beforeRun?(done: number, next: string): Promise<void>;
}

/**
 * How often callers give way to the event loop: those of an embedded database never leave the microtask
 * queue by themselves, and no signal would be heard. (A timer, since Deno hears none between two turns
 * that it does not wait for.)
 */
const turnEveryMs = 250;

/** How many runs a measurement is made of. */
export function countRuns(candidates: readonly Candidate[], options: MeasureOptions): number {
  return candidates.length * options.concurrency.length * (1 + options.rounds);
}

/** Measures candidates beside each other at each number of callers. */
export async function measure(
  candidates: readonly Candidate[],
  options: MeasureOptions,
): Promise<readonly Measured[]> {
  const measured: Measured[] = [];
  let done = 0;
  for (const concurrency of options.concurrency) {
    const runs = candidates.map((candidate) => ({ candidate, samples: new Array<Sample>() }));
    for (let round = 0; round <= options.rounds; round++) {
      const title = round === 0 ? "warm-up" : `round ${round} of ${options.rounds}`;
      for (let turn = 0; turn < runs.length; turn++) {
        const { candidate, samples } = runs[(round + turn) % runs.length]!;
        options.signal.throwIfAborted();
        await options.beforeRun?.(done++, `${callers(concurrency)}, ${title}, ${candidate.name}`);
        const operation = await candidate.prepare(concurrency);
        const sample = await runOnce(operation, { ...options, concurrency });
        if (round > 0) samples.push(sample);
      }
    }
    for (const { candidate: { name }, samples } of runs) {
      measured.push({ candidate: name, concurrency, samples });
    }
  }
  return measured;
}

/** A number of callers in words. */
export function callers(concurrency: number): string {
  return concurrency === 1 ? "1 caller" : `${concurrency} callers`;
}

async function runOnce(
  operation: (caller: number) => Promise<bigint>,
  options: { concurrency: number; seconds: number; signal: AbortSignal },
): Promise<Sample> {
  const { concurrency, seconds, signal } = options;
  const latencies = createHistogram({ figures: 3 });
  let count = 0;
  let sum = 0n;
  const startMs = performance.now();
  const untilMs = startMs + seconds * 1_000;
  await Promise.all(Array.from({ length: concurrency }, async (_, caller) => {
    let beforeMs = performance.now();
    let turnMs = beforeMs;
    while (beforeMs < untilMs && !signal.aborted) {
      if (beforeMs - turnMs > turnEveryMs) {
        await new Promise((resolve) => setTimeout(resolve, 1));
        turnMs = beforeMs = performance.now();
      }
      sum += await operation(caller);
      const afterMs = performance.now();
      latencies.record(Math.max(1, Math.round((afterMs - beforeMs) * 1e6)));
      count++;
      beforeMs = afterMs;
    }
  }));
  const tookMs = performance.now() - startMs;
  signal.throwIfAborted();
  if (sum === 0n) throw new Error("Cannot measure: the operations gave nothing");
  return {
    opsPerSecond: count / tookMs * 1_000,
    p50Ms: latencies.percentile(50) / 1e6,
    p99Ms: latencies.percentile(99) / 1e6,
  };
}
