/**
 * The tables of a benchmark, so that nothing of an application's or of another benchmark's is touched.
 *
 * @module
 */

import { Identifier, type TableOptions } from "../mod.ts";
import type { BenchConnection } from "./drivers/mod.ts";

const name = `fencepost_bench_${crypto.randomUUID().slice(0, 8)}`;

/** The names of the tables. */
export const tableOptions: Required<TableOptions> = {
  rangeTable: name,
  slotTable: `${name}_slot`,
  namespaceTable: `${name}_namespace`,
};

/** The table of ranges. */
export const rangeTable: Identifier = Identifier.parse(tableOptions.rangeTable, "rangeTable");

/** Drops the tables. */
export async function dropTables(connection: BenchConnection): Promise<void> {
  for (const [option, table] of Object.entries(tableOptions)) {
    await connection.drop(Identifier.parse(table, option));
  }
}
