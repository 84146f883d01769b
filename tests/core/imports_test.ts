import { assert, assertEquals, assertGreater } from "@std/assert";
import { fileURLToPath } from "node:url";

const root = new URL("../../", import.meta.url);

/** A module of the graph, as `deno info --json` describes it. */
interface Module {
  readonly specifier: string;
  readonly dependencies?: readonly {
    readonly specifier: string;
    readonly isDynamic?: boolean;
    readonly code?: { readonly specifier?: string };
    readonly type?: { readonly specifier?: string };
  }[];
}

interface Graph {
  readonly roots: readonly string[];
  readonly modules: readonly Module[];
  readonly redirects: Readonly<Record<string, string>>;
}

/** What a module imports without being asked to, each as the specifier that it resolves to. */
async function staticImports(entry: string): Promise<Map<string, readonly string[]>> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["info", "--json", "--no-lock", entry],
    cwd: fileURLToPath(root),
  }).output();
  assert(success, new TextDecoder().decode(stderr));
  const graph: Graph = JSON.parse(new TextDecoder().decode(stdout));
  const found = new Map<string, readonly string[]>();
  const visit = (specifier: string) => {
    if (found.has(specifier)) return;
    const module = graph.modules.find((one) => one.specifier === specifier);
    const imports = (module?.dependencies ?? [])
      .filter(({ isDynamic }) => !isDynamic)
      .flatMap(({ specifier, code, type }) => code?.specifier ?? type?.specifier ?? specifier)
      .map((resolved) => graph.redirects[resolved] ?? resolved);
    found.set(specifier, imports);
    imports.forEach(visit);
  };
  graph.roots.forEach(visit);
  return found;
}

/** A module of this package by its path, another by its specifier. */
function pathOf(specifier: string): string {
  return specifier.startsWith(root.href) ? specifier.slice(root.href.length) : specifier;
}

async function sourcesIn(folder: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(new URL(`${folder}/`, root))) {
    if (isDirectory) found.push(...await sourcesIn(`${folder}/${name}`));
    else if (name.endsWith(".ts")) found.push(`${folder}/${name}`);
  }
  return found.sort();
}

/** The modules that those of a folder import, outside of the folders that they may use. */
async function strayImports(folder: string, allowed: readonly string[]): Promise<string[]> {
  const graph = new Map<string, readonly string[]>();
  for (const source of await sourcesIn(folder)) {
    if (graph.has(new URL(source, root).href)) continue;
    for (const [importer, imports] of await staticImports(source)) graph.set(importer, imports);
  }
  return [...graph].flatMap(([importer, imports]) =>
    imports.map(pathOf)
      .filter((imported) => !allowed.some((prefix) => imported.startsWith(prefix)))
      .map((imported) => `${pathOf(importer)} imports ${imported}`)
  );
}

Deno.test("mod.ts loads no driver, no platform module and no dialect by itself", async () => {
  const graph = await staticImports("mod.ts");
  const paths = [...graph.keys()].map(pathOf);
  assertEquals(paths.filter((path) => path !== "mod.ts" && !path.startsWith("core/")), []);
  assertGreater(paths.length, 10);
});

Deno.test("a dialect's entry loads no driver, and no other dialect", async () => {
  for (const name of ["h2", "postgresql", "sqlite", "sqlserver"]) {
    const graph = await staticImports(`dialects/${name}/mod.ts`);
    const allowed = [`dialects/${name}/`, "dialects/shared/", "schema/", "core/"];
    const stray = [...graph.keys()].map(pathOf)
      .filter((path) => !allowed.some((prefix) => path.startsWith(prefix)));
    assertEquals(stray, []);
  }
});

Deno.test("core/ imports only itself", async () => {
  assertEquals(await strayImports("core", ["core/"]), []);
});

Deno.test("schema/ imports only itself and core/", async () => {
  assertEquals(await strayImports("schema", ["schema/", "core/"]), []);
});

Deno.test("tests/tck/ imports only itself and core/", async () => {
  assertEquals(await strayImports("tests/tck", ["tests/tck/", "core/"]), []);
});

Deno.test("core/ and tests/tck/ use no global of one platform", async () => {
  const found: string[] = [];
  for (const source of [...await sourcesIn("core"), ...await sourcesIn("tests/tck")]) {
    const text = await Deno.readTextFile(new URL(source, root));
    const code = text.replaceAll(/\/\*[\s\S]*?\*\//g, "").replaceAll(/(^|\s)\/\/.*$/gm, "");
    for (
      const [global] of code.matchAll(
        /(?<![\w.])((Deno|Bun|Buffer|process)\.\w+|require\(|__dirname\b)/g,
      )
    ) {
      found.push(`${source}: ${global}`);
    }
    for (const [specifier] of code.matchAll(/["'](node|npm|jsr|https?):[^"']*["']/g)) {
      found.push(`${source}: ${specifier}`);
    }
  }
  assertEquals(found, []);
});

Deno.test("published modules use no syntax that Node 20 lacks", async () => {
  const found: string[] = [];
  for (const folder of ["core", "dialects", "schema"]) {
    for (const source of await sourcesIn(folder)) {
      const text = await Deno.readTextFile(new URL(source, root));
      const code = text.replaceAll(/\/\*[\s\S]*?\*\//g, "").replaceAll(/(^|\s)\/\/.*$/gm, "");
      if (/^\s*(await )?using\s+\w+\s*=/m.test(code)) found.push(`${source}: using`);
      if (/Promise\.(withResolvers|try)\b/.test(code)) found.push(`${source}: Promise`);
      if (/from "@std\//.test(code)) found.push(`${source}: @std`);
    }
  }
  assertEquals(found, []);
});
