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
  /**
   * The table of slots, as above.
   *
   * @default {"cosid_slot"}
   */
  slotTable?: string;
  /**
   * The table of the namespaces of slots, as above.
   *
   * @default {"cosid_namespace"}
   */
  namespaceTable?: string;
}

/** The checked names of the tables. */
export interface Tables {
  /** The table of id ranges. */
  readonly range: Identifier;
  /** The table of slots. */
  readonly slot: Identifier;
  /** The table of the namespaces of slots. */
  readonly namespace: Identifier;
}

/** The tables that are there: without slots a store can do without theirs. */
export type PresentTables = Pick<Tables, "range"> & Partial<Tables>;

/** Checks the names of the tables and fills in the defaults. */
export function tablesOf(options: TableOptions = {}): Tables {
  const {
    rangeTable = "cosid_range",
    slotTable = "cosid_slot",
    namespaceTable = "cosid_namespace",
  } = options;
  return {
    range: Identifier.parse(rangeTable, "rangeTable"),
    slot: Identifier.parse(slotTable, "slotTable"),
    namespace: Identifier.parse(namespaceTable, "namespaceTable"),
  };
}
