/**
 * The npm package where its users have it: installed from the tarball into an empty folder, by npm
 * for Node and by Bun for Bun. It is packed once, and installed once by each.
 *
 * @module
 */

import { build, type Plugin } from "esbuild";
import { copyFile, mkdir } from "node:fs/promises";
import { basename, join, relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import config from "../../deno.json" with { type: "json" };
import { drivers, rangeOf } from "../package/manifest.ts";
import { pack } from "../package/pack.ts";
import { run } from "../servers/process.ts";
import { holdFolder } from "../servers/temporary.ts";
import { runtimes } from "./mod.ts";
import type { RuntimeAddress } from "./runtime.ts";

/** The programs that run on a database, by the name of its server without the version. */
export const programsOf: Readonly<Record<string, readonly string[]>> = {
  mariadb: ["mysql2", "url"],
  mysql: ["mysql2", "url"],
  postgresql: ["postgres", "pg", "url"],
};

/** All programs, each over a driver or a URL. */
export const programs: readonly string[] = [...new Set(Object.values(programsOf).flat())];

const root = fileURLToPath(new URL("../..", import.meta.url));
const here = fileURLToPath(new URL(".", import.meta.url));
const withTypes = ["@types/node@20", "@types/pg@^8.15.0"];

/** Folders in which the package is installed. Each is made when it is first asked for. */
export class Installations {
  readonly #folders = new Map<string, Promise<string>>();
  readonly #held = holdFolder("runtimes");
  #tarball: Promise<string> | undefined;

  /** A folder with nothing but the package, and the program `entries.mjs`. */
  alone(runtime: RuntimeAddress): Promise<string> {
    return this.#once(`alone-${installerName(runtime)}`, async (folder) => {
      await this.#install(runtime, { folder, packages: [] });
      await bundle(["programs/entries"], folder);
    });
  }

  /**
   * A folder with the package, the drivers, each of the {@linkcode programs} as TypeScript (`.mts`)
   * and as JavaScript (`.mjs`), and `kit.mjs`.
   */
  withDrivers(runtime: RuntimeAddress): Promise<string> {
    return this.#once(`drivers-${installerName(runtime)}`, async (folder) => {
      const packages = [...drivers.map((driver) => `${driver}@${rangeOf(driver)}`), ...withTypes];
      await this.#install(runtime, { folder, packages });
      const paths = programs.map((program) => `programs/${program}`);
      await bundle([...paths, "kit"], folder);
      for (const path of paths) {
        await copyFile(join(here, `${path}.ts`), join(folder, `${basename(path)}.mts`));
      }
    });
  }

  /** Removes them all. */
  async remove(): Promise<void> {
    await (await this.#held).stop();
  }

  #once(name: string, make: (folder: string) => Promise<void>): Promise<string> {
    const made = this.#folders.get(name) ?? this.#make(name, make);
    this.#folders.set(name, made);
    return made;
  }

  async #make(name: string, make: (folder: string) => Promise<void>): Promise<string> {
    const folder = join((await this.#held).folder, name);
    await mkdir(folder);
    await make(folder);
    return folder;
  }

  async #install(
    runtime: RuntimeAddress,
    { folder, packages }: { folder: string; packages: readonly string[] },
  ): Promise<void> {
    this.#tarball ??= this.#pack();
    await run([...installerOf(runtime), await this.#tarball, ...packages], { cwd: folder });
  }

  async #pack(): Promise<string> {
    const file = join((await this.#held).folder, "package.tgz");
    await pack(file);
    return file;
  }
}

/** The runtimes with one installer share a folder. */
function installerName(runtime: RuntimeAddress): string {
  return basename(installerOf(runtime)[0] ?? "");
}

/** The command that installs packages for the users of a runtime. */
function installerOf(address: RuntimeAddress): readonly string[] {
  const runtime = runtimes.find(({ name }) => name === address.name);
  if (runtime === undefined) throw new Error(`Cannot install for ${address.name}: it is unknown`);
  return runtime.installer(address);
}

/** Compiles modules of this folder for Node 20, each into one file. */
async function bundle(paths: readonly string[], outdir: string): Promise<void> {
  await build({
    entryPoints: paths.map((path) => ({ in: join(here, `${path}.ts`), out: basename(path) })),
    outdir,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    format: "esm",
    platform: "node",
    target: "node20",
    packages: "external",
    plugins: [installedLibrary],
    logLevel: "silent",
  });
}

/** Leaves the library out of a bundle: its entries are imported from the installed package. */
const installedLibrary: Plugin = {
  name: "installed-library",
  setup({ onResolve }) {
    const entries = new Map(
      Object.entries(config.exports).map(([entry, path]) => [
        resolve(root, path),
        `${config.name}${entry.slice(1)}`,
      ]),
    );
    onResolve({ filter: /^\.\.?\// }, ({ path, resolveDir }) => {
      const file = resolve(resolveDir, path);
      const entry = entries.get(file);
      if (entry !== undefined) return { path: entry, external: true };
      const [folder] = relative(root, file).split(sep);
      if (folder === "tests" && !file.startsWith(resolve(root, "tests/tck"))) return undefined;
      return { errors: [{ text: `${file} is in no entry of the package` }] };
    });
  },
};
