/**
 * The rules of id ranges.
 *
 * @module
 */

import type { TckCase } from "./context.ts";
import { argumentCases } from "./range/arguments.ts";
import { concurrencyCases } from "./range/concurrency.ts";
import { faultCases } from "./range/faults.ts";
import { groupCases } from "./range/groups.ts";
import { keyCases } from "./range/keys.ts";
import { planCases } from "./range/plans.ts";
import { schemaCases } from "./range/schema.ts";
import { valueCases } from "./range/values.ts";

/** The rules of id ranges: each case is one of them. */
export const rangeCases: readonly TckCase[] = [
  ...valueCases,
  ...keyCases,
  ...concurrencyCases,
  ...groupCases,
  ...planCases,
  ...faultCases,
  ...schemaCases,
  ...argumentCases,
];
