/**
 * Prints tables as the programs of this project do.
 *
 * @module
 */

/** Prints rows, the first being their heads, with columns as wide as their widest cell. */
export function printTable(rows: readonly (readonly string[])[]): void {
  const widths = rows[0]?.map((_, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0)));
  for (const row of rows) {
    console.log(row.map((cell, at) => cell.padEnd(widths?.[at] ?? 0)).join("  ").trimEnd());
  }
}
