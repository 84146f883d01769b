/**
 * The rules of slot leases, of holds and of snowflake ids.
 *
 * @module
 */

import type { TckCase } from "./context.ts";
import { acquireCases } from "./slot/acquire.ts";
import { beliefCases } from "./slot/beliefs.ts";
import { slotArgumentCases } from "./slot/arguments.ts";
import { assertCases } from "./slot/assert.ts";
import { slotConcurrencyCases } from "./slot/concurrency.ts";
import { choiceCases } from "./slot/choice.ts";
import { namespaceCases } from "./slot/namespaces.ts";
import { slotSchemaCases } from "./slot/schema.ts";
import { slotFaultCases } from "./slot/faults.ts";
import { dataCases } from "./slot/data.ts";
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
  ...namespaceCases,
  ...choiceCases,
  ...assertCases,
  ...slotConcurrencyCases,
  ...slotFaultCases,
  ...slotArgumentCases,
  ...slotSchemaCases,
  ...dataCases,
  ...holdCases,
  ...idsCases,
];
