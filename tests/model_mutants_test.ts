import { assertNotEquals } from "@std/assert";
import { mutants } from "./model/mutants.ts";
import { judgeAll } from "./model/run_mutants.ts";

for (const mutant of mutants) {
  Deno.test(`model › finds the contract broken: ${mutant.breaks}`, async () => {
    for await (const { after, by } of judgeAll([mutant], { runs: 10_000 })) {
      assertNotEquals(after, undefined, by);
    }
  });
}
