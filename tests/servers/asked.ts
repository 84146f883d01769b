/**
 * The databases that run for this test run. `tests/run.ts` starts them before any test does.
 *
 * @module
 */
import process from "node:process";
import type { ServerAddress } from "./server.ts";

/** The environment variable that carries them, as JSON. */
export const askedServersVariable = "FENCEPOST_TEST_SERVERS";

/** The databases on which every case has to pass. */
export function askedServers(): readonly ServerAddress[] {
  const json = process.env[askedServersVariable];
  if (json === undefined) throw new Error("run `deno task test`");
  return JSON.parse(json);
}
