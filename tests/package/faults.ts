/**
 * What is wrong with the npm package, by what is in it. Without a fault it holds:
 *
 * - only the library, its compatibility kit, its DDL, readme and licence: no test, no stand-in, no
 *   source map;
 * - every entry of deno.json, each with its types;
 * - no dependency: each driver is an optional peer, loaded when it is needed, and nothing else is
 *   imported;
 * - code that Node 20 parses, and that names no global of another runtime;
 * - types that need no other package.
 *
 * @module
 */

import { posix } from "node:path";
import config from "../../deno.json" with { type: "json" };
import type { Manifest } from "./manifest.ts";
import { type Import, readSource } from "./source.ts";
import type { Files } from "./tarball.ts";

const required = ["package.json", "README.md", "LICENSE"];
const published = /^(?:mod|(?:core|dialects|schema|tck)\/.+)\.(?:js|d\.ts)$|^schema\/\w+\.sql$/;
const notPublished = /_(?:test|bench)\.|(?:^|\/)(?:tests?|std|bench|servers|mutants|runtimes)\//;
const forbiddenFields = [
  "dependencies",
  "devDependencies",
  "optionalDependencies",
  "bundleDependencies",
  "bundledDependencies",
  "scripts",
];

/** The faults of a package; none if it is as it has to be. */
export function faultsOf(files: Files): string[] {
  const missing = required.filter((path) => !files.has(path));
  if (missing.length > 0) return missing.map((path) => `${path} is missing`);
  const manifest: Manifest = JSON.parse(files.get("package.json") ?? "");
  return [
    ...faultsOfPaths(files),
    ...faultsOfManifest(manifest, files),
    ...[...files].flatMap(([path, text]) =>
      faultsOfText(path, text, { files, manifest }).map((fault) => `${path} ${fault}`)
    ),
  ];
}

function faultsOfPaths(files: Files): string[] {
  return [...files.keys()]
    .filter((path) => !required.includes(path))
    .filter((path) => !published.test(path) || notPublished.test(path))
    .map((path) => `${path} is no part of the library`);
}

function faultsOfManifest(manifest: Manifest, files: Files): string[] {
  const faults: string[] = [];
  const check = (holds: boolean, fault: string) => {
    if (!holds) faults.push(`package.json ${fault}`);
  };
  for (const field of ["name", "version", "license"] as const) {
    check(manifest[field] === config[field], `has another ${field} than deno.json`);
  }
  check(manifest.type === "module", "does not say that the code is modules");
  check(manifest.sideEffects === false, "does not say that no import has a side effect");
  check(manifest.engines?.node === ">=20", "does not ask for Node 20");
  for (const field of ["description", "keywords"] as const) {
    check(Boolean(manifest[field]?.length), `has no ${field}`);
  }
  for (const field of forbiddenFields) check(!(field in manifest), `has ${field}`);

  const peers = Object.keys(manifest.peerDependencies ?? {});
  check(peers.length > 0, "has no driver for a peer");
  for (const peer of peers) {
    check(manifest.peerDependenciesMeta?.[peer]?.optional === true, `demands ${peer}`);
  }

  const entries = Object.keys(manifest.exports ?? {});
  check(entries.join() === Object.keys(config.exports).join(), "has other entries than deno.json");
  for (const [entry, target] of Object.entries(manifest.exports ?? {})) {
    // A condition that comes after one that holds is never looked at.
    check(Object.keys(target)[0] === "types", `does not give the types of ${entry} first`);
    check(/\.d\.ts$/.test(target.types), `has no types for ${entry}`);
    for (const path of [target.types, target.import, target.default]) {
      check(files.has(posix.normalize(path ?? "")), `has ${path} for ${entry}, which is not there`);
    }
  }
  return faults;
}

interface Package {
  readonly files: Files;
  readonly manifest: Manifest;
}

function faultsOfText(path: string, text: string, { files, manifest }: Package): string[] {
  const faults = /[#@] sourceMappingURL=/.test(text) ? ["has a source map"] : [];
  if (!/\.(?:js|d\.ts)$/.test(path)) return faults;
  const { imports, references, using, globals } = readSource(path, text);
  const declares = path.endsWith(".d.ts");
  if (using) faults.push("has a `using` declaration");
  if (!declares) faults.push(...globals.map((name) => `uses ${name}`));
  faults.push(...references.map((name) => `refers to ${name}`));
  for (const imported of imports) {
    const fault = declares
      ? faultOfType(imported, { path, files })
      : faultOfImport(imported, { path, files, manifest });
    if (fault !== undefined) faults.push(fault);
  }
  return faults;
}

function faultOfImport(
  { specifier, dynamic }: Import,
  { path, files, manifest }: Package & { path: string },
): string | undefined {
  if (specifier === undefined) return "imports what is known only when it runs";
  if (specifier.startsWith(".")) {
    return files.has(resolve(path, specifier)) ? undefined : `imports ${specifier}, not there`;
  }
  const declared = specifier.startsWith("node:") || specifier in manifest.peerDependencies;
  if (!declared) return `imports ${specifier}, which package.json does not declare`;
  return dynamic ? undefined : `imports ${specifier} before it is needed`;
}

function faultOfType(
  { specifier = "" }: Import,
  { path, files }: { path: string; files: Files },
): string | undefined {
  if (!specifier.startsWith(".")) return `needs ${specifier}`;
  const types = resolve(path, specifier).replace(/\.js$/, ".d.ts");
  return files.has(types) ? undefined : `needs ${specifier}, which has no types`;
}

/** The path of what a module imports relatively. */
export function resolve(path: string, specifier: string): string {
  return posix.join(posix.dirname(path), specifier);
}
