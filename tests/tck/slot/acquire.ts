import type { TckCase } from "../context.ts";

/** How a slot is taken. */
export const acquireCases: readonly TckCase[] = [];
