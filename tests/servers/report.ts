/**
 * Reads what `deno test` reports, and counts for each database what passed on it.
 *
 * @module
 */

/** A case that ran, or was skipped by its own wish. */
export interface Outcome {
  readonly name: string;
  readonly result: "passed" | "failed" | "ignored";
}

/** How many cases of a database passed and failed. */
export interface Tally {
  passed: number;
  failed: number;
}

/**
 * The cases in a JUnit report of `deno test`. A case that only groups steps is counted by its steps,
 * and by itself if it failed while none of them did. Cases that a filter left out are not in it.
 */
export function readReport(xml: string): Outcome[] {
  const cases = [...xml.matchAll(/<testcase ([^>]*?)(?:\/>|>(.*?)<\/testcase>)/gs)].map(
    ([, attributes = "", content = ""]) => ({ attributes, content }),
  );
  const ran = cases.map(({ attributes, content }): Outcome & { filtered: boolean } => {
    const skipped = content.includes("<skipped");
    const failed = content.includes("<failure") || content.includes("<error");
    return {
      name: unescape(/(?:^| )name="([^"]*)"/.exec(attributes)?.[1] ?? ""),
      result: skipped ? "ignored" : failed ? "failed" : "passed",
      // What never started has no time.
      filtered: skipped && !/ time="/.test(attributes),
    };
  }).filter(({ filtered }) => !filtered);
  return ran.filter(({ name, result }) => {
    const steps = ran.filter((other) => other.name.startsWith(`${name} > `));
    if (steps.length === 0) return true;
    return result !== "passed" && steps.every((step) => step.result === "passed");
  }).map(({ name, result }) => ({ name, result }));
}

/** Counts the cases per database; those that are about none are under `other`. */
export function tally(
  outcomes: readonly Outcome[],
  databases: readonly string[],
): Map<string, Tally> {
  const tallies = new Map([...databases, other].map((name) => [name, { passed: 0, failed: 0 }]));
  for (const { name, result } of outcomes) {
    const database = databases.find((database) => isAbout(name, database)) ?? other;
    const counts = tallies.get(database);
    if (counts !== undefined && result !== "ignored") counts[result]++;
  }
  return tallies;
}

/** The name under which cases are counted that are about no database. */
export const other = "other";

function isAbout(name: string, database: string): boolean {
  if (!name.startsWith(`${database} `)) return false;
  return /^(?:\([^)]*\) )?› /.test(name.slice(database.length + 1));
}

function unescape(text: string): string {
  const characters: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', amp: "&" };
  return text.replace(/&(?:#(\d+)|#x([0-9a-f]+)|(\w+));/gi, (whole, decimal, hex, name) => {
    if (decimal !== undefined) return String.fromCodePoint(Number(decimal));
    if (hex !== undefined) return String.fromCodePoint(parseInt(hex, 16));
    return name === "apos" ? "'" : characters[name] ?? whole;
  });
}
