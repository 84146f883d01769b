/**
 * Writes the npm package: `deno task pack [-o file]`, by default to `fencepost-store-<version>.tgz`
 * in the current folder.
 *
 * `deno pack` compiles the modules and their types. This gives them a package.json whose drivers are
 * optional peers, and puts the compatibility kit into a folder of its own, for tools take `tests/`
 * for tests that were published by mistake. A package with a fault (see `faults.ts`) is not written.
 *
 * @module
 */

import { copyFile, stat } from "node:fs/promises";
import { basename, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import config from "../../deno.json" with { type: "json" };
import { faultsOf, resolve } from "./faults.ts";
import { type Manifest, manifestOf } from "./manifest.ts";
import { readSource } from "./source.ts";
import { type Files, readTarball, withTemporaryFolder, writeTarball } from "./tarball.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
/** The folders that have another name in the package. */
const moves = [["tests/tck/", "tck/"]] as const;

if (import.meta.main) {
  const { values } = parseArgs({
    args: Deno.args,
    options: {
      output: { type: "string", short: "o", default: `fencepost-store-${config.version}.tgz` },
    },
  });
  const files = await pack(values.output);
  const { size } = await stat(values.output);
  const { exports, peerDependencies }: Manifest = JSON.parse(files.get("package.json") ?? "");
  const peers = Object.entries(peerDependencies).map((peer) => peer.join(" "));
  console.log(`${basename(values.output)}: ${files.size} files, ${Math.ceil(size / 1024)} KiB`);
  console.log(`entries: ${Object.keys(exports).join(", ")}`);
  console.log(`optional peers: ${peers.join(", ")}`);
}

/** Writes the package to a file, and returns what is in it. */
export async function pack(file: string): Promise<Files> {
  return await withTemporaryFolder(async (folder) => {
    const compiled = join(folder, "compiled.tgz");
    await compile(compiled);
    const packed = join(folder, "packed.tgz");
    await writeTarball(packed, complete(move(await readTarball(compiled))));
    const files = await readTarball(packed);
    const faults = faultsOf(files);
    if (faults.length > 0) throw new Error(`Cannot pack:\n${faults.join("\n")}`);
    await copyFile(packed, file);
    return files;
  });
}

async function compile(file: string): Promise<void> {
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["pack", "--allow-dirty", "--no-source-maps", "--output", file],
    cwd: root,
    env: { NO_COLOR: "1" },
  }).output();
  if (!success) throw new Error(`Cannot compile: ${new TextDecoder().decode(stderr)}`);
}

/** Gives the package its package.json. */
function complete(files: Files): Files {
  const packed: Manifest = JSON.parse(files.get("package.json") ?? "");
  const manifest = manifestOf({ ...packed, exports: movedExports(packed.exports) });
  return new Map([...files, ["package.json", `${JSON.stringify(manifest, null, 2)}\n`]]);
}

function movedExports(exports: Manifest["exports"]): Manifest["exports"] {
  const target = (path: string) => `./${moved(posix.normalize(path))}`;
  return Object.fromEntries(
    Object.entries(exports).map(([entry, { types, import: code }]) => {
      if (!types) {
        throw new Error(`Cannot pack ${entry}: its types cannot be told without inference`);
      }
      return [entry, { types: target(types), import: target(code), default: target(code) }];
    }),
  );
}

/** Moves the folders, and lets every relative import follow. */
function move(files: Files): Files {
  return new Map([...files].map(([path, text]) => [moved(path), movedImports(path, text)]));
}

function movedImports(path: string, text: string): string {
  if (!/\.(?:js|d\.ts)$/.test(path)) return text;
  let result = "";
  let end = 0;
  for (const { specifier, start } of readSource(path, text).imports) {
    if (!specifier?.startsWith(".")) continue;
    const target = moved(resolve(path, specifier));
    const relative = posix.relative(posix.dirname(moved(path)), target);
    result += text.slice(end, start) + (relative.startsWith(".") ? relative : `./${relative}`);
    end = start + specifier.length;
  }
  return result + text.slice(end);
}

function moved(path: string): string {
  const [from, to] = moves.find(([from]) => path.startsWith(from)) ?? ["", ""];
  return to + path.slice(from.length);
}
