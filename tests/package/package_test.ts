/**
 * The package as npm gets it, and the module graph as bundlers and registries see it.
 *
 * @module
 */

import { assertEquals, assertMatch } from "@std/assert";
import { build } from "esbuild";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { pack } from "./pack.ts";
import { type Files, unpackTarball, withTemporaryFolder, writeTarball } from "./tarball.ts";

let packed: Promise<Files> | undefined;

/** Gives a folder in which the package is installed, and no driver. It is packed once. */
async function withPackage(work: (folder: string) => Promise<void>): Promise<void> {
  await withTemporaryFolder(async (folder) => {
    const tarball = join(folder, "package.tgz");
    await writeTarball(tarball, await (packed ??= pack(tarball)));
    await unpackTarball(tarball, join(folder, "node_modules/@fencepost/store"));
    await work(folder);
  });
}

const program = `
import { openStore, type Range, RangeSealedError, sql, type StoreEvent } from "@fencepost/store";
import { openStore as openPostgresql, type PostgresqlOptions } from "@fencepost/store/postgresql";
import { openStore as openSqlite } from "@fencepost/store/sqlite";
import { tckCases } from "@fencepost/store/tck";

export async function main(): Promise<Range> {
  const options: PostgresqlOptions = { onEvent: (event: StoreEvent) => console.log(event.type) };
  const store = await openPostgresql("postgres://localhost/shop", options);
  const other = await openSqlite("sqlite::memory:");
  await (await openStore("sqlite::memory:")).close();
  try {
    return await other.ranges.reserve("order", 1_000);
  } catch (error) {
    if (error instanceof RangeSealedError) console.log(error.key, sql, tckCases.length);
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
    for (
      const entry of [
        "mod.js",
        "dialects/h2/mod.js",
        "dialects/postgresql/mod.js",
        "dialects/sqlite/mod.js",
      ]
    ) {
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
    const dialects = ["h2", "postgresql", "sqlite"];
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

Deno.test("packing twice makes the same bytes, and says what they hold", async () => {
  await withTemporaryFolder(async (folder) => {
    const files = [join(folder, "a.tgz"), join(folder, "b.tgz")];
    for (const file of files) {
      const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
        args: ["task", "pack", "-o", file],
        cwd: fileURLToPath(new URL("../..", import.meta.url)),
        env: { NO_COLOR: "1" },
      }).output();
      const decoder = new TextDecoder();
      assertEquals(success, true, decoder.decode(stderr));
      assertMatch(decoder.decode(stdout), /files, \d+ KiB\nentries: \., .+\noptional peers: .+ /);
    }
    const [a, b] = await Promise.all(files.map((file) => readFile(file, "base64")));
    assertEquals(a, b);
  });
});
