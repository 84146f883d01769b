/**
 * Every runtime in which the npm package has to work.
 *
 * @module
 */

import { bun, node } from "./npx.ts";
import type { TestRuntime } from "./runtime.ts";

export * from "./runtime.ts";

/**
 * In the order in which they are named. Node 20 has no `node:sqlite`. PGlite takes seconds to start,
 * and is the same WebAssembly in every Node: the oldest runs the kit on it.
 */
export const runtimes: readonly TestRuntime[] = [
  node(20, { without: ["sqlite"] }),
  node(22, { without: ["pglite"] }),
  node(24, { without: ["pglite"] }),
  bun("1.4"),
];
