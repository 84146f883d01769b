/**
 * The compatibility kit: the library's promises as cases that run on any database, over any driver,
 * under any test runner.
 *
 * Give each case a {@linkcode TckContext} for the database; it resolves if the rule that is its name
 * holds there, and rejects with the reason if not.
 *
 * @example
 * ```ts ignore
 * import { tckCases, type TckContext } from "@fencepost/store/tck";
 *
 * declare function contextOf(database: string): Promise<TckContext>;
 *
 * for (const { name, run } of tckCases) {
 *   Deno.test(`mydb › ${name}`, async () => await run(await contextOf("mydb")));
 * }
 * ```
 *
 * @module
 */

import type { TckCase } from "./context.ts";
import { rangeCases } from "./range.ts";
import { slotCases } from "./slot.ts";

export { TckFailure } from "./check.ts";
export type { TckCase, TckContext, TckInside, TckOpenOptions, TckTransaction } from "./context.ts";
export { rangeCases, slotCases };

/** Every rule of the library: those of id ranges, then those of slots. */
export const tckCases: readonly TckCase[] = [...rangeCases, ...slotCases];
