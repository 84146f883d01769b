/**
 * A progress bar on a terminal, a plain line now and then elsewhere; on stderr, so that stdout stays
 * clean for results.
 *
 * The bar takes one line, is never wrapped whatever the width of the terminal, and is gone when it
 * has ended. The cursor, hidden meanwhile, comes back at the latest when the process exits by itself;
 * a program that is ended by a signal calls `end` first.
 *
 * @module
 */

import process from "node:process";
// @ts-types="npm:@types/cli-progress@^3.11.6"
import cliProgress from "cli-progress";

/** The progress of something that takes seconds. */
export interface Progress {
  /** How much of the total is done, and a few words about it. */
  update(done: number, note?: string): void;
  /** Removes the bar; does nothing the second time. Nothing else may be printed before. */
  end(): void;
}

/** Shows what is done, and how much of its total. */
export function startProgress(what: string, total: number): Progress {
  return process.stderr.isTTY && process.env.TERM !== "dumb"
    ? startBar(what, total)
    : startLines(what, total);
}

const widestBar = 40;

function startBar(what: string, total: number): Progress {
  const bar = new cliProgress.SingleBar({
    stream: process.stderr,
    format: (_, { progress, maxWidth }, { note }) =>
      barLine({ what, progress, note: String(note), columns: maxWidth }),
    clearOnComplete: true,
    hideCursor: true,
    // The line is cut to the terminal's width, so that wrapping need not be turned off and on again.
    linewrap: true,
  });
  const end = () => {
    process.off("exit", end);
    bar.stop();
  };
  process.on("exit", end);
  bar.start(total, 0, { note: "" });
  return { update: (done, note = "") => bar.update(done, { note }), end };
}

/** What a bar shows. */
export interface BarLine {
  /** What makes progress. */
  readonly what: string;
  /** From 0 to 1. */
  readonly progress: number;
  /** A few words about it. */
  readonly note: string;
  /** The width of the terminal. */
  readonly columns: number;
}

/** Free at the end of the line, so that a `^C` that the terminal shows there does not wrap it. */
const spareColumns = 5;

/** The bar as wide as there is room; what still does not fit is cut off. */
export function barLine({ what, progress, note, columns }: BarLine): string {
  const room = Math.max(0, columns - spareColumns);
  const before = `${what} `;
  const after = ` ${percentage(progress).padStart(4)}  ${note}`;
  const width = Math.max(0, Math.min(widestBar, room - before.length - after.length));
  const done = Math.round(progress * width);
  const bar = "█".repeat(done) + "░".repeat(width - done);
  return `${before}${bar}${after}`.slice(0, room).trimEnd();
}

const betweenLinesMs = 2_000;

/** A line for each tenth that was done, but not more often than every two seconds. */
function startLines(what: string, total: number): Progress {
  let printedMs = performance.now();
  let printedTenths = 0;
  return {
    update(done, note = "") {
      const nowMs = performance.now();
      const tenths = Math.floor(done / total * 10);
      if (tenths <= printedTenths || nowMs - printedMs < betweenLinesMs) return;
      printedMs = nowMs;
      printedTenths = tenths;
      process.stderr.write(`${what} ${percentage(done / total)}  ${note}`.trimEnd() + "\n");
    },
    end() {},
  };
}

function percentage(progress: number): string {
  return `${Math.floor(Math.min(1, progress) * 100)}%`;
}
