/**
 * The names of the tables, checked once when a store opens.
 *
 * @module
 */

import { Identifier } from "./statement.ts";

/** The options that name tables. */
export interface TableOptions {
  /**
   * The table of id ranges, optionally qualified by a schema. Always quoted, so its case counts.
   *
   * @default {"cosid_range"}
   */
  rangeTable?: string;
}

/** The checked names of the tables. */
export interface Tables {
  /** The table of id ranges. */
  readonly range: Identifier;
}

/** Checks the names of the tables and fills in the defaults. */
export function tablesOf(options: TableOptions = {}): Tables {
  const { rangeTable = "cosid_range" } = options;
  return { range: Identifier.parse(rangeTable, "rangeTable") };
}
