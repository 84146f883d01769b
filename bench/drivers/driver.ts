/**
 * What a suite needs of a driver: a store over it, and the same work by the driver alone.
 *
 * @module
 */

import type { Dialect, Identifier, Statement, Store, StoreOptions } from "../../mod.ts";

/** Takes ids. Resolves with a value that the database gave, so that the driver has to read it. */
export type Take = () => Promise<bigint>;

/** A driver to measure with. */
export interface BenchDriver {
  /** The name of its package, or of the platform's module. */
  readonly name: string;
  /** Connects as an application does, with the driver's default pool. */
  connect(url: string): Promise<BenchConnection>;
}

/** A pool, or the connection of an embedded database. */
export interface BenchConnection extends AsyncDisposable {
  /** The dialect of the database. */
  readonly dialect: Dialect;
  /** Opens a store over it. */
  openStore(options: StoreOptions): Promise<Store>;
  /** Sends a statement that returns `next_value`, as the driver's documentation does. */
  bare(statement: Statement): Take;
  /** Updates a row of ranges and reads it, in a transaction, as CosId 3 did. */
  transaction(row: { table: Identifier; key: string; size: number }): Take;
  /** Empties a table, so that nothing is left of rows that were updated before. */
  empty(table: Identifier): Promise<void>;
  /** Drops a table. */
  drop(table: Identifier): Promise<void>;
}
