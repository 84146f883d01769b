/**
 * The rules of slot leases, of holds and of snowflake ids.
 *
 * @module
 */

import type { TckCase } from "./context.ts";
import { acquireCases } from "./slot/acquire.ts";
import { beliefCases } from "./slot/beliefs.ts";
import { fenceCases } from "./slot/fences.ts";
import { holdCases } from "./slot/hold.ts";
import { idsCases } from "./slot/ids.ts";
import { windowCases } from "./slot/windows.ts";

/** The rules of slots: each case is one of them. */
export const slotCases: readonly TckCase[] = [
  ...acquireCases,
  ...windowCases,
  ...fenceCases,
  ...beliefCases,
  ...holdCases,
  ...idsCases,
];
