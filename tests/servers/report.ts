/**
 * Reads what `deno test` reports, and counts for each database and runtime what passed there.
 *
 * @module
 */

/** A case that ran, or was skipped by its own wish. */
export interface Outcome {
  readonly name: string;
  readonly result: "passed" | "failed" | "ignored";
}

/** How many cases passed and failed. */
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

/**
 * Counts the cases per database or runtime: one that is about a database in a runtime under the
 * runtime, one that is about none under `other`.
 */
export function tally(
  outcomes: readonly Outcome[],
  names: readonly string[],
): Map<string, Tally> {
  const tallies = new Map([...names, other].map((name) => [name, { passed: 0, failed: 0 }]));
  for (const { name, result } of outcomes) {
    const about = subjectsOf(name);
    const counts = tallies.get(about.findLast((one) => names.includes(one)) ?? other);
    if (counts !== undefined && result !== "ignored") counts[result]++;
  }
  return tallies;
}

/** The name under which cases are counted that are about nothing that has a name. */
export const other = "other";

/** What a case is about: "postgresql-15 (pg, node 20) › a rule" is about three things. */
function subjectsOf(name: string): string[] {
  const [, subject = "", through = ""] = /^([^›(]+?)(?: \(([^)]*)\))? › /.exec(name) ?? [];
  return [subject, ...through.split(", ")];
}

function unescape(text: string): string {
  const characters: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', amp: "&" };
  return text.replace(/&(?:#(\d+)|#x([0-9a-f]+)|(\w+));/gi, (whole, decimal, hex, name) => {
    if (decimal !== undefined) return String.fromCodePoint(Number(decimal));
    if (hex !== undefined) return String.fromCodePoint(parseInt(hex, 16));
    return name === "apos" ? "'" : characters[name] ?? whole;
  });
}
