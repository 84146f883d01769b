/**
 * What the tests know of a runtime in which the package has to work: how it is obtained, and how its
 * users install a package. `tests/run.ts` obtains them before any test runs.
 *
 * @module
 */

import process from "node:process";

/** A runtime that the tests can obtain. */
export interface TestRuntime {
  /** Names the runtime and its version as far as it matters: "node 20". */
  readonly name: string;
  /** The databases on which the compatibility kit does not run in it, by their names. */
  readonly without: readonly string[];
  /** Finds or fetches it; rejects with the reason if it cannot be had. */
  obtain(): Promise<RuntimeAddress>;
  /** The command to which the packages are added that are to be installed in a folder. */
  installer(address: RuntimeAddress): readonly string[];
}

/** What a test has to know of a runtime. */
export interface RuntimeAddress {
  /** The name of its {@linkcode TestRuntime}. */
  readonly name: string;
  /** The version that it reports. */
  readonly version: string;
  /** The path of its executable. */
  readonly executable: string;
}

/** The environment variable that carries the runtimes of a test run, as JSON. */
export const askedRuntimesVariable = "FENCEPOST_TEST_RUNTIMES";

/** The runtimes in which every case has to pass. */
export function askedRuntimes(): readonly RuntimeAddress[] {
  const json = process.env[askedRuntimesVariable];
  if (json === undefined) throw new Error("run `deno task test`");
  return JSON.parse(json);
}
