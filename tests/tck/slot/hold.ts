import type { TckCase } from "../context.ts";

/** A lease that is kept renewed. */
export const holdCases: readonly TckCase[] = [];
