import { assertEquals } from "@std/assert";
import { check, replayOf } from "./model/check.ts";
import { type Rule, rules } from "./model/rules.ts";

/** Enough for each rule to be broken by most of its mutants, and few enough to wait for. */
const runs = 500;

for (const [rule, sentence] of Object.entries(rules)) {
  Deno.test(`model › ${sentence}`, async () => {
    const outcome = await check({ runs, only: [rule as Rule] });
    const { failure } = outcome;
    assertEquals(
      failure,
      undefined,
      `${failure?.message}\n\n  ${failure?.schedule}\n\nAgain: ${replayOf(outcome)}`,
    );
    assertEquals(outcome.schedules, runs);
  });
}
