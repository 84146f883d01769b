/**
 * What a case of the compatibility kit is given, and what it is.
 *
 * @module
 */

import type { Client, Session } from "../../core/sql/client.ts";
import type { Dialect } from "../../core/sql/dialect.ts";
import type { Store, StoreOptions } from "../../core/store.ts";

/** How a case opens a store. */
export interface TckOpenOptions extends StoreOptions {
  /** The client to open it over; one of its own unless given. */
  client?: Client;
}

/** A transaction of the application's, on a connection of its own. */
export interface TckTransaction {
  /** The driver's own handle of it, as an application has it. */
  readonly handle: unknown;
  /** Runs statements in it. */
  readonly session: Session;
  /** Ends it, and keeps what it wrote. */
  commit(): Promise<void>;
  /** Ends it, and takes back what it wrote; does nothing once it has ended. */
  rollback(): Promise<void>;
}

/** What the application has at hand while its own transaction is open. */
export interface TckInside {
  /** Opens a store on it, or tries to. */
  open(options?: StoreOptions): Promise<Store>;
  /** Ends the transaction. */
  rollback(): Promise<void>;
}

/**
 * The database that a case runs on. Whoever runs the kit provides it, makes one for each case, and
 * closes what the case opened when it has ended.
 */
export interface TckContext {
  /** The dialect under test. */
  readonly dialect: Dialect;
  /** Names of tables that no other case uses. They do not exist yet. */
  readonly tables: {
    readonly rangeTable: string;
    readonly slotTable: string;
    readonly namespaceTable: string;
  };
  /** The schema that unqualified names stand for. */
  readonly schema: string;
  /**
   * Opens a store with the context's dialect. Unless the options say otherwise it uses the context's
   * tables, creates them, and has a client of its own.
   */
  open(options?: TckOpenOptions): Promise<Store>;
  /** Another client of the same database, on other connections where the driver has several. */
  client(): Promise<Client>;
  /** Begins a transaction of the application's on a connection of its own. */
  begin(): Promise<TckTransaction>;
  /** Begins a transaction of the application's, and gives what a store could be opened on inside. */
  inside(): Promise<TckInside>;
}

/** One rule, and how it is tried. */
export interface TckCase {
  /** The rule. */
  readonly name: string;
  /** Resolves if the rule holds, rejects if not. */
  readonly run: (context: TckContext) => Promise<void>;
}
