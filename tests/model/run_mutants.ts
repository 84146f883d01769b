/**
 * Breaks each contract of `mutants.ts` in a copy of the sources and runs the model there until it finds
 * a rule broken.
 *
 * @module
 */

import { cp, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { type Edit, type Mutant, mutants } from "./mutants.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
/** What the model needs of the project. */
const needed = ["core", "dialects", "schema", "deno.json", "deno.lock", "tests/model", "tests/std"];
const decoder = new TextDecoder();

/** What the model said of a mutant. */
export interface Verdict {
  readonly mutant: Mutant;
  /** How many schedules passed before it was found; undefined if it was not. */
  readonly after: number | undefined;
  /** The rule that was broken, and how. */
  readonly by: string;
}

/** Runs the model on each mutant, in a copy of the sources that is removed in the end. */
export async function* judgeAll(
  chosen: readonly Mutant[],
  options: { readonly runs: number; readonly seed?: number },
): AsyncGenerator<Verdict> {
  const folder = await mkdtemp(join(tmpdir(), "fencepost-model-"));
  try {
    for (const path of needed) {
      await cp(join(root, path), join(folder, path), { recursive: true });
    }
    for (const mutant of chosen) {
      const originals = new Map<string, string>();
      for (const edit of mutant.edits) await apply(edit, { folder, originals });
      yield { mutant, ...await judge(folder, { ...options, mutant }) };
      for (const [path, text] of originals) await writeFile(path, text);
    }
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/**
 * Runs the model on the mutants whose contract holds some words, and prints what it said.
 *
 * @returns Whether each was found.
 */
export async function runMutants(
  words: string,
  options: { readonly runs: number; readonly seed?: number },
): Promise<boolean> {
  const chosen = mutants.filter(({ breaks }) => breaks.includes(words));
  let survivors = 0;
  for await (const { mutant, after, by } of judgeAll(chosen, options)) {
    if (after === undefined) survivors++;
    const found = after === undefined ? "SURVIVED" : `found after ${after} schedules`;
    console.log(`${mutant.breaks}\n  ${found}\n  ${by}`);
  }
  console.log(`model: ${chosen.length - survivors} mutants found, ${survivors} survived`);
  return survivors === 0 && chosen.length > 0;
}

async function apply(
  { file, find, replace }: Edit,
  { folder, originals }: { folder: string; originals: Map<string, string> },
): Promise<void> {
  const path = join(folder, file);
  const text = await readFile(path, "utf8");
  if (!originals.has(path)) originals.set(path, text);
  const pieces = text.split(find);
  if (pieces.length !== 2) throw new Error(`${file} holds ${pieces.length - 1} times: ${find}`);
  await writeFile(path, pieces.join(replace));
}

async function judge(
  folder: string,
  { mutant, runs, seed }: { mutant: Mutant; runs: number; seed?: number },
): Promise<Omit<Verdict, "mutant">> {
  const seeded = seed === undefined ? [] : ["--seed", `${seed}`];
  const rules = mutant.rules.join(",");
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "-A", "-q", "--no-check", "tests/model/main.ts"],
      ...["--runs", `${runs}`, "--rules", rules, "--no-shrink", ...seeded],
    ],
    cwd: folder,
    env: { NO_COLOR: "1" },
  }).output();
  const output = decoder.decode(stdout);
  const [, schedules, violations] =
    /^model: ([0-9,]+) schedules, .* ([01]) violations, seed/m.exec(output) ?? [];
  if (schedules === undefined) throw new Error(`the model broke: ${decoder.decode(stderr)}`);
  return violations === "0"
    ? { after: undefined, by: `no rule of ${rules} was broken` }
    : { after: Number(schedules.replaceAll(",", "")), by: output.split("\n")[0] ?? "" };
}
