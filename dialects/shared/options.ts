/**
 * The options that the entries of several databases share.
 *
 * @module
 */

import { checkBoolean, refuse } from "../../core/arguments.ts";
import { checkStoreOptions, type StoreOptions } from "../../core/store.ts";

/** What an entry may take beside the options of every store. */
export interface DriverOptions extends StoreOptions {
  exclusive?: boolean;
  prepare?: boolean;
  username?: string;
  password?: string;
}

/**
 * Checks the options of an entry, before anything is loaded or sent.
 *
 * @param target What the store is opened on: credentials go with a URL only.
 * @param options The options.
 * @param flags The flags that the entry knows.
 */
export function checkDriverOptions(
  target: unknown,
  options: DriverOptions,
  flags: readonly ("exclusive" | "prepare")[] = ["exclusive", "prepare"],
): void {
  const action = "open store";
  checkStoreOptions(options, [...flags, "username", "password"]);
  for (const name of flags) checkBoolean(action, name, options[name]);
  for (const name of ["username", "password"] as const) {
    const value = options[name];
    if (value === undefined) continue;
    if (typeof target !== "string") refuse(action, `${name} goes with a URL`, "a driver's object");
    if (typeof value !== "string") refuse(action, `${name} must be a string`, typeof value);
  }
}
