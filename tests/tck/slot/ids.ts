import type { TckCase } from "../context.ts";

/** Snowflake ids over a hold. */
export const idsCases: readonly TckCase[] = [];
