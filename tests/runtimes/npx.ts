/**
 * Node and Bun, as npm has them. `npx` fetches one the first time, and keeps it.
 *
 * @module
 */

import { run } from "../servers/process.ts";
import type { RuntimeAddress, TestRuntime } from "./runtime.ts";

/** A major version of Node. */
export function node(
  major: number,
  { without = [] }: { without?: readonly string[] } = {},
): TestRuntime {
  const name = `node ${major}`;
  return {
    name,
    without,
    obtain: () => obtain(name, { version: `${major}`, command: "node" }),
    installer: () => ["npm", "install", "--no-audit", "--no-fund"],
  };
}

/** A minor version of Bun. */
export function bun(version: string): TestRuntime {
  const name = `bun ${version}`;
  return {
    name,
    without: [],
    obtain: () => obtain(name, { version, command: "bun" }),
    installer: ({ executable }) => [executable, "add"],
  };
}

async function obtain(
  name: string,
  { version, command }: { version: string; command: string },
): Promise<RuntimeAddress> {
  const ask = "JSON.stringify([process.versions.bun ?? process.versions.node, process.execPath])";
  const spec = `${command}@${version}`;
  const answer = await run(["npx", "-y", `--package=${spec}`, "--", command, "-p", ask]);
  const [reported, executable] = JSON.parse(answer);
  if (!`${reported}.`.startsWith(`${version}.`)) {
    throw new Error(`Cannot use ${spec}: received version ${reported}`);
  }
  return { name, version: reported, executable };
}
