/**
 * The table of the README that says how many cases of the compatibility kit passed on each database,
 * under each of its drivers, in each runtime: `deno task test --report` writes it.
 *
 * @module
 */

import { runtimes } from "./runtimes/mod.ts";
import type { Outcome } from "./servers/report.ts";
import { tckCases } from "./tck/mod.ts";

const begin = "<!-- written by `deno task test --report` -->\n\n";
const end = "\n<!-- end -->\n";

/** The README with the table of a run in its place. */
export function withTable(readme: string, rows: readonly (readonly string[])[]): string {
  const from = readme.indexOf(begin);
  const to = readme.indexOf(end);
  if (from < 0 || to < from) {
    throw new Error("Cannot write the table: the README has no place for it");
  }
  return readme.slice(0, from + begin.length) + markdown(rows) + readme.slice(to);
}

/**
 * The rows of the table, the first being their heads.
 *
 * @param outcomes What became of every case.
 * @param names The databases, in their order. One without a case did not run.
 */
export function tableOf(
  outcomes: readonly Outcome[],
  names: readonly string[],
): readonly (readonly string[])[] {
  const rules = new Set(tckCases.map(({ name }) => name));
  const columns = ["deno", ...runtimes.map(({ name }) => name)];
  const counts = new Map(names.map((name) => [name, new Map<string, Map<string, number>>()]));
  for (const { name, result } of outcomes) {
    const [, database = "", through = "", rule = ""] =
      /^(\S+)(?: \((.*?)\))? › (.*)$/s.exec(name) ?? [];
    const drivers = counts.get(database);
    if (drivers === undefined || !rules.has(rule) || result !== "passed") continue;
    const parts = through.split(", ").filter((part) => part !== "");
    const column = parts.find((part) => columns.includes(part)) ?? "deno";
    const driver = parts.find((part) => !columns.includes(part)) ?? "";
    const passed = drivers.get(driver) ?? new Map<string, number>();
    passed.set(column, (passed.get(column) ?? 0) + 1);
    drivers.set(driver, passed);
  }
  const rows = [...counts].flatMap(([database, drivers]) =>
    drivers.size === 0
      ? [[database, "", "did not run", ...columns.slice(1).map(() => "")]]
      : [...drivers].map(([driver, passed]) => [
        database,
        driver,
        ...columns.map((column) => String(passed.get(column) ?? "")),
      ])
  );
  return [[`${rules.size} cases`, "driver", ...columns], ...rows];
}

/** Rows as a table, laid out as `deno fmt` does. */
function markdown(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]?.map((_, at) => Math.max(3, ...rows.map((row) => row[at]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, at) => cell.padEnd(widths?.[at] ?? 0)).join(" | ")} |\n`;
  const [head = [], ...body] = rows;
  return [head, widths?.map((width) => "-".repeat(width)) ?? [], ...body].map(line).join("");
}
