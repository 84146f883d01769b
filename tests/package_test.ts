/**
 * The package as npm gets it, and the module graph as bundlers and registries see it.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { build } from "esbuild";
import { mkdtemp, readdir, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import ts from "typescript";

const root = new URL("..", import.meta.url);

async function run(command: string, args: readonly string[], cwd: string | URL): Promise<string> {
  const child = new Deno.Command(command, { args: [...args], cwd, env: { NO_COLOR: "1" } });
  const { success, stdout, stderr } = await child.output();
  const decoder = new TextDecoder();
  if (!success) throw new Error(`${command} failed: ${decoder.decode(stderr)}`);
  return decoder.decode(stdout);
}

/** Gives a folder in which the packed package is installed, and no driver. */
async function withPackage(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "fencepost-package-"));
  try {
    const tarball = join(folder, "package.tgz");
    await run(Deno.execPath(), ["pack", "--allow-dirty", "--output", tarball], root);
    await Deno.mkdir(join(folder, "node_modules/@fencepost"), { recursive: true });
    await run("tar", ["-xzf", tarball], folder);
    await rename(join(folder, "package"), join(folder, "node_modules/@fencepost/store"));
    await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const program = `
import { openStore, type Range, RangeSealedError, sql, type StoreEvent } from "@fencepost/store";
import { openStore as openPostgresql, type PostgresqlOptions } from "@fencepost/store/postgresql";
import { openStore as openSqlite } from "@fencepost/store/sqlite";
import { rangeCases } from "@fencepost/store/tck";

export async function main(): Promise<Range> {
  const options: PostgresqlOptions = { onEvent: (event: StoreEvent) => console.log(event.type) };
  const store = await openPostgresql("postgres://localhost/shop", options);
  const other = await openSqlite("sqlite::memory:");
  await (await openStore("sqlite::memory:")).close();
  try {
    return await other.ranges.reserve("order", 1_000);
  } catch (error) {
    if (error instanceof RangeSealedError) console.log(error.key, sql, rangeCases.length);
    return await store.ranges.reserve("order", 1_000n, { timeoutMs: 100 });
  }
}
`;

Deno.test("the packed types check without any driver, also inside the library", async () => {
  await withPackage(async (folder) => {
    const file = join(folder, "main.ts");
    await writeFile(file, program);
    const checked = ts.createProgram([file], {
      strict: true,
      noEmit: true,
      skipLibCheck: false,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
      lib: ["lib.es2022.d.ts", "lib.dom.d.ts", "lib.esnext.disposable.d.ts"],
      types: [],
    });
    const problems = ts.getPreEmitDiagnostics(checked).map(({ messageText, file }) =>
      `${file?.fileName ?? ""}: ${ts.flattenDiagnosticMessageText(messageText, "\n")}`
    );
    assertEquals(problems, []);
    const declared = checked.getSourceFiles().map(({ fileName }) => fileName);
    assertEquals(declared.some((name) => name.endsWith("/store/core/store.d.ts")), true);
  });
});

Deno.test("a bundler bundles every entry with no driver installed", async () => {
  await withPackage(async (folder) => {
    for (const entry of ["mod.js", "dialects/postgresql/mod.js", "dialects/sqlite/mod.js"]) {
      const { errors, outputFiles } = await build({
        entryPoints: [join(folder, "node_modules/@fencepost/store", entry)],
        absWorkingDir: folder,
        bundle: true,
        write: false,
        format: "esm",
        platform: "neutral",
        logLevel: "silent",
        external: ["node:*"],
      });
      assertEquals(errors, [], entry);
      assertEquals(outputFiles.length, 1, entry);
    }
  });
});

Deno.test("a bundle of one dialect holds no other", async () => {
  await withPackage(async (folder) => {
    const dialects = ["postgresql", "sqlite"];
    for (const dialect of dialects) {
      const { metafile } = await build({
        entryPoints: [join(folder, `node_modules/@fencepost/store/dialects/${dialect}/mod.js`)],
        absWorkingDir: folder,
        bundle: true,
        write: false,
        metafile: true,
        format: "esm",
        platform: "neutral",
        logLevel: "silent",
        external: ["node:*"],
      });
      const others = Object.keys(metafile.inputs).filter((input) =>
        dialects.some((other) => other !== dialect && input.includes(other))
      );
      assertEquals(others, [], dialect);
    }
  });
});

Deno.test("the package holds no test but the compatibility kit, and no stand-in", async () => {
  await withPackage(async (folder) => {
    const packed = join(folder, "node_modules/@fencepost/store");
    assertEquals(await readdir(join(packed, "tests")), ["tck"]);
    const files = await readdir(packed, { recursive: true });
    assertEquals(files.filter((name) => /_test\.|(^|\/)(bench|std|servers)(\/|$)/.test(name)), []);
  });
});
