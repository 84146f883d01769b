import { assertEquals } from "@std/assert";
import { join } from "node:path";
import { faultsOf } from "./faults.ts";
import { pack } from "./pack.ts";
import { type Files, withTemporaryFolder } from "./tarball.ts";

let packed: Promise<Files> | undefined;

/** The files of the package, packed once. */
function packedFiles(): Promise<Files> {
  return packed ??= withTemporaryFolder((folder) => pack(join(folder, "package.tgz")));
}

/** A change of the package, and the fault that it is. */
interface Break {
  /** What is changed. */
  readonly what: string;
  readonly fault: string;
  /** The file that changes, or comes into being. */
  readonly path: string;
  readonly change: (text: string) => string;
}

function adds(path: string, text: string, fault: string): Break {
  const change = (before: string) => `${before}\n${text}\n`;
  return { what: `${path}: ${text || "an empty file"}`, path, change, fault: `${path} ${fault}` };
}

function declares(manifest: Record<string, unknown>, fault: string): Break {
  const change = (text: string) => JSON.stringify({ ...JSON.parse(text), ...manifest });
  const path = "package.json";
  return { what: `${path} ${fault}`, path, change, fault: `${path} ${fault}` };
}

const target = { types: "./mod.d.ts", import: "./mod.js", default: "./mod.js" };
const others = {
  "./postgresql": target,
  "./sqlite": target,
  "./sqlserver": target,
  "./tck": target,
};

const breaks: readonly Break[] = [
  adds("core/store_test.js", "", "is no part of the library"),
  adds("tests/ranges_test.js", "", "is no part of the library"),
  adds("tests/std/assert/mod.js", "", "is no part of the library"),
  adds("core/std/mod.js", "", "is no part of the library"),
  adds("bench/main.js", "", "is no part of the library"),
  adds("mod.ts", "", "is no part of the library"),
  adds("mod.js.map", "{}", "is no part of the library"),
  adds("deno.json", "{}", "is no part of the library"),
  adds("mod.js", "//# sourceMappingURL=data:application/json;base64,e30=", "has a source map"),
  adds("core/store.js", "{ using held = null; }", "has a `using` declaration"),
  adds("core/store.js", "{ await using held = null; }", "has a `using` declaration"),
  adds("core/store.js", "for (using held of []);", "has a `using` declaration"),
  adds("mod.js", "const home = Deno.cwd();", "uses Deno"),
  adds("mod.js", "const tar = require('tar');", "uses require"),
  adds(
    "mod.js",
    "import '@std/assert';",
    "imports @std/assert, which package.json does not declare",
  ),
  adds(
    "mod.js",
    "await import('jsr:@std/assert');",
    "imports jsr:@std/assert, which package.json does not declare",
  ),
  adds(
    "mod.js",
    "export * from 'npm:postgres';",
    "imports npm:postgres, which package.json does not declare",
  ),
  adds("mod.js", "import postgres from 'postgres';", "imports postgres before it is needed"),
  adds("mod.js", "import 'node:fs';", "imports node:fs before it is needed"),
  adds("mod.js", "await import(`${name}`);", "imports what is known only when it runs"),
  adds("mod.js", "import './core/gone.js';", "imports ./core/gone.js, not there"),
  adds("mod.d.ts", "import type postgres from 'postgres';", "needs postgres"),
  adds("mod.d.ts", "export type Sql = import('postgres').Sql;", "needs postgres"),
  adds(
    "mod.d.ts",
    "export * from './core/arguments.js';",
    "needs ./core/arguments.js, which has no types",
  ),
  {
    what: "mod.d.ts: a reference to types",
    path: "mod.d.ts",
    change: (text) => `/// <reference types="node" />\n${text}`,
    fault: "mod.d.ts refers to node",
  },
  declares({ version: "9.9.9" }, "has another version than deno.json"),
  declares({ type: "commonjs" }, "does not say that the code is modules"),
  declares({ sideEffects: undefined }, "does not say that no import has a side effect"),
  declares({ engines: { node: ">=22" } }, "does not ask for Node 20"),
  declares({ keywords: [] }, "has no keywords"),
  declares({ dependencies: { postgres: "^3" } }, "has dependencies"),
  declares({ scripts: { postinstall: "node mod.js" } }, "has scripts"),
  declares({ peerDependenciesMeta: {} }, "demands postgres"),
  declares({ exports: { ".": target } }, "has other entries than deno.json"),
  declares(
    { exports: { ".": { module: "./mod.js", ...target }, ...others } },
    "does not give the types of . first",
  ),
  declares(
    { exports: { ".": { ...target, types: "./mod.js" }, ...others } },
    "has no types for .",
  ),
  declares(
    { exports: { ".": { ...target, default: "./gone.js" }, ...others } },
    "has ./gone.js for ., which is not there",
  ),
];

Deno.test("what is packed has no fault", async () => {
  assertEquals(faultsOf(await packedFiles()), []);
});

for (const { what, fault, path, change } of breaks) {
  Deno.test(`a package is refused that is changed: ${what}`, async () => {
    const files = await packedFiles();
    const faults = faultsOf(new Map([...files, [path, change(files.get(path) ?? "")]]));
    assertEquals(faults.includes(fault), true, faults.join("\n"));
  });
}

for (const path of ["package.json", "README.md", "LICENSE", "dialects/sqlite/mod.d.ts"]) {
  Deno.test(`a package is refused that lacks ${path}`, async () => {
    const files = new Map(await packedFiles());
    files.delete(path);
    assertEquals(faultsOf(files).some((fault) => fault.includes(path)), true);
  });
}
