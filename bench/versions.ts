/**
 * The versions of what takes part in a measurement.
 *
 * @module
 */

import { readFileSync } from "node:fs";
import { cpus } from "node:os";
import process from "node:process";
import config from "../deno.json" with { type: "json" };

/** The versions of the library, the runtime and a driver, and the machine's processors. */
export function versionsOf(driver: string): Readonly<Record<string, string>> {
  const [cpu] = cpus();
  return {
    fencepost: config.version,
    ...runtime(),
    ...(driver.startsWith("node:") ? {} : { [driver]: locked(driver) }),
    cpu: `${cpus().length} × ${cpu?.model ?? "unknown"}`,
  };
}

function runtime(): Readonly<Record<string, string>> {
  const { bun, deno, node = "" } = process.versions;
  return bun ? { bun } : deno ? { deno } : { node };
}

/** The version of a package that the project's lock file has. */
function locked(name: string): string {
  const file = new URL("../deno.lock", import.meta.url);
  const { specifiers } = JSON.parse(readFileSync(file, "utf8"));
  for (const [specifier, version] of Object.entries(specifiers)) {
    // Which versions its own peers have comes after an underscore.
    if (specifier.startsWith(`npm:${name}@`)) return String(version).split("_", 1).join();
  }
  return "unknown";
}
