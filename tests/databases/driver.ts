/**
 * A database under one driver, as the contexts need it.
 *
 * @module
 */

import type { Client, Dialect } from "../../mod.ts";
import type { TckInside, TckTransaction } from "../tck/mod.ts";

/** An open transaction of the application's, and how a store is opened inside it. */
export type Begun = TckTransaction & TckInside;

/** A connection, or a pool of them, that the application has. */
export interface Connected {
  readonly client: Client;
  /** Begins a transaction of the application's. */
  begin(): Promise<Begun>;
  /** Closes it as the application would. */
  end(): Promise<void>;
}

/** A database under one driver. */
export interface Driver {
  /** The driver, where the database has several. */
  readonly name?: string;
  readonly dialect: Dialect;
  /** The schema that unqualified names stand for. */
  readonly schema: string;
  connect(): Promise<Connected>;
}

/** The drivers of a database, given its URL. */
export type Drivers = (url: string) => readonly Driver[];

/** Holds open a transaction whose driver runs it in a callback. */
export async function openTransaction(
  run: (hold: (inside: Omit<Begun, "commit" | "rollback">) => Promise<void>) => Promise<unknown>,
): Promise<Begun> {
  const undo = new Error("rolled back as the test asked");
  return await new Promise((resolve, reject) => {
    const ended = run((inside) =>
      new Promise((commit, rollBack) => {
        resolve({
          ...inside,
          async commit() {
            commit();
            await ended;
          },
          async rollback() {
            rollBack(undo);
            await ended.catch((error) => {
              if (error !== undo) throw error;
            });
          },
        });
      })
    );
    ended.catch(reject);
  });
}

/** A value of any type, where the types of the library would not let it pass. */
export function anything<T>(value: unknown): T {
  return value as T;
}
