/**
 * Writes the schema scripts beside this module: `deno task schema`.
 *
 * @module
 */

import { schemaScript, scriptNames } from "./script.ts";

for (const name of scriptNames) {
  await Deno.writeTextFile(new URL(`${name}.sql`, import.meta.url), schemaScript(name));
}
