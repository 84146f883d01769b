/**
 * Runs the compatibility kit out of the installed package: `kit.js <database and driver>`. It prints
 * a {@linkcode KitResult} as a line of JSON when a case has ended, and exits when its standard input
 * ends, which is when whoever started it is gone.
 *
 * It is bundled with the contexts of `tests/databases/mod.ts`; the library is not in the bundle. No case
 * runs if an entry of the library is loaded from anywhere but the folder where npm put it.
 *
 * @module
 */

import process from "node:process";
import { inspect } from "node:util";
import { databases } from "../databases/mod.ts";
import { tckCases } from "../tck/mod.ts";

/** What a line says. */
export interface KitResult {
  /** The rule. */
  readonly name: string;
  /** Why it does not hold. */
  readonly failure?: string;
}

process.stdin.on("end", () => process.exit(1)).resume();

const home = new URL("node_modules/@fencepost/store/", import.meta.url).href;
for (const entry of ["", "/h2", "/mysql", "/postgresql", "/sqlite", "/sqlserver", "/tck"]) {
  const loaded = import.meta.resolve(`@fencepost/store${entry}`);
  if (!loaded.startsWith(home)) throw new Error(`Cannot test ${home}: received ${loaded}`);
}
const installed = await import("@fencepost/store/tck");
if (tckCases !== installed.tckCases) throw new Error(`Cannot test ${home}: it is not used`);

const database = databases().find(({ name }) => name === process.argv[2]);
if (database === undefined) throw new Error(`Cannot test: received ${process.argv[2]}`);
for (const { name, run } of tckCases) {
  const failure = await database.run(run).then(() => undefined, (error) => inspect(error));
  const result: KitResult = { name, failure };
  console.log(JSON.stringify(result));
}
process.exit();
