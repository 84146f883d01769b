/**
 * What a process of these tests is told, and what it says: a line of JSON each. A process writes a line
 * at once, without a buffer, so that what it has said is known wherever it is killed.
 *
 * @module
 */

import { writeSync } from "node:fs";
import process from "node:process";
import {
  type SnowflakeIdsOptions,
  type SnowflakeLayout,
  snowflakeLayout,
  type TableOptions,
} from "../../mod.ts";

/** The environment variable that carries a process's {@linkcode Settings}: others can read arguments. */
export const settingsVariable = "FENCEPOST_TEST_PROCESS";

/** What a process ends by, after it has drawn what it was to draw. */
export type End =
  /** It goes on drawing until somebody ends it. */
  | "never"
  /** It ends at once and releases nothing. */
  | "exit"
  /** It leaves the block of its `await using`. */
  | "release"
  /** It stops itself, as by SIGSTOP, and goes on drawing when it is continued. */
  | "stop";

/** What a process is to do. */
export interface Settings {
  /** Opens the store. */
  readonly url: string;
  /** The tables, which exist. */
  readonly tables: Required<TableOptions>;
  /** Which slot it takes; if none is free, it tries again until there is one. */
  readonly hold: SnowflakeIdsOptions;
  /** How many batches of ids it draws. */
  readonly batches: number;
  /** What it does then. */
  readonly end: End;
}

/**
 * Two ids per millisecond, so that a batch takes fifty of them: whoever draws is soon further ahead of the
 * clock than a process needs to start, and only the windows keep its ids from those of the next.
 */
export const layout: SnowflakeLayout = { ...snowflakeLayout, sequenceBits: 1 };

/** How many ids a batch has. */
export const batchSize = 100;

/** What a process says. */
export type Said =
  | { readonly type: "acquired"; readonly slot: number; readonly fence: number }
  | { readonly type: "ids"; readonly ids: readonly string[] }
  | { readonly type: "lost"; readonly held: boolean; readonly aborted: boolean }
  | { readonly type: "exit" };

/** What this process is to do. */
export function readSettings(): Settings {
  return JSON.parse(process.env[settingsVariable] ?? "null");
}

/** Says something. */
export function say(said: Said): void {
  const bytes = new TextEncoder().encode(`${JSON.stringify(said)}\n`);
  for (let at = 0; at < bytes.length;) at += writeSync(1, bytes, at);
}
