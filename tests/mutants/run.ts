/**
 * Breaks each contract of `mutants.ts` in a copy of the project and runs the tests there until one
 * fails: `deno task mutants [part of a contract or file]`. A mutant under which none fails has survived, and
 * fails the run. The last line says how many were found.
 *
 * @module
 */

import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { askedServersVariable } from "../servers/asked.ts";
import { type RunningServer, servers } from "../servers/mod.ts";
import { type Mutant, mutants } from "./mutants.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
/** What is run against a mutant unless it names its tests. */
const usualTests = ["tests/core", "tests/ranges_test.ts"];
/** PGlite takes seconds to start, and speaks what PostgreSQL speaks. */
const databases = ["sqlite", "postgresql-15"];
/** The project without what has been installed or committed. */
const leftOut = new Set([".git", "node_modules"]);
/** How long the tests may take, of which most end at their first failure, in milliseconds. */
const patienceMs = 240_000;
const decoder = new TextDecoder();

interface Verdict {
  readonly found: boolean;
  /** The case that failed, or what happened instead. */
  readonly by: string;
}

if (import.meta.main) {
  const words = Deno.args[0] ?? "";
  const chosen = mutants.filter(({ breaks, file }) =>
    breaks.includes(words) || file.includes(words)
  );
  const running: RunningServer[] = [];
  let survivors = 0;
  try {
    for (const server of servers.filter(({ name }) => databases.includes(name))) {
      const reason = await server.unavailable();
      if (reason !== undefined) throw new Error(`${server.name} cannot run: ${reason}`);
      running.push(await server.start());
    }
    const unbroken = await judge(undefined, running);
    if (unbroken.found) throw new Error(`a case fails without any mutant: ${unbroken.by}`);
    for (const mutant of chosen) {
      const { found, by } = await judge(mutant, running);
      if (!found) survivors++;
      console.log(`${found ? "found   " : "SURVIVED"}  ${mutant.breaks}\n          ${by}`);
    }
  } finally {
    await Promise.all(running.map((server) => server.stop()));
  }
  console.log(`${chosen.length - survivors} mutants found, ${survivors} survived`);
  Deno.exit(survivors === 0 && chosen.length > 0 ? 0 : 1);
}

/** Runs the tests on a copy of the project, changed as the mutant says. */
async function judge(
  mutant: Mutant | undefined,
  running: readonly RunningServer[],
): Promise<Verdict> {
  const folder = await mkdtemp(join(tmpdir(), "fencepost-mutant-"));
  try {
    await cp(root, folder, {
      recursive: true,
      filter: (source) => !leftOut.has(source.slice(dirname(source).length + 1)),
    });
    if (mutant) await mutate(folder, mutant);
    // Without a mutant everything that finds one has to pass.
    const every = [...usualTests, ...mutants.flatMap(({ tests = [] }) => tests)];
    const suite = mutant ? mutant.tests ?? usualTests : [...new Set(every)];
    return await runTests(folder, { suite, running });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function mutate(folder: string, { file, find, replace }: Mutant): Promise<void> {
  const path = join(folder, file);
  const pieces = (await readFile(path, "utf8")).split(find);
  if (pieces.length !== 2) {
    throw new Error(`${file} holds ${pieces.length - 1} times: ${find}`);
  }
  await writeFile(path, pieces.join(replace));
}

async function runTests(
  folder: string,
  { suite, running }: { suite: readonly string[]; running: readonly RunningServer[] },
): Promise<Verdict> {
  const addresses = running.map(({ name, url, version }) => ({ name, url, version }));
  const child = new Deno.Command(Deno.execPath(), {
    args: ["test", "-A", "--no-check", "--fail-fast", ...suite],
    cwd: folder,
    env: { [askedServersVariable]: JSON.stringify(addresses), NO_COLOR: "1" },
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const timer = setTimeout(() => child.kill("SIGKILL"), patienceMs);
  const { code, signal, stdout, stderr } = await child.output();
  clearTimeout(timer);
  if (signal !== null) return { found: false, by: `the tests did not end in ${patienceMs} ms` };
  if (code === 0) return { found: false, by: "every case passed" };
  const output = decoder.decode(stdout);
  // A case that waits for what never comes ends the run: it is the last that began.
  const failure = /^(.*) \.\.\. FAILED/m.exec(output)?.[1] ??
    output.match(/^.* › .*(?= \.\.\.)/gm)?.at(-1);
  if (failure === undefined) throw new Error(`the tests broke: ${decoder.decode(stderr)}`);
  return { found: true, by: failure };
}
