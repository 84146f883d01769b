import fc from "fast-check";
import { ModelDatabase } from "./database.ts";
import { printed, schedules } from "./schedule.ts";
import { World } from "./world.ts";
const database = new ModelDatabase();
const n = Number(Deno.args[0] ?? 1000);
let steps = 0, ids = 0, statements = 0, runs = 0;
const t = performance.now();
const out = await fc.check(fc.asyncProperty(schedules, async (schedule) => {
  const done = await new World(database, schedule).run();
  runs++; steps += done.steps; ids += done.ids; statements += done.statements;
}), { numRuns: n, seed: Deno.args[1] ? Number(Deno.args[1]) : undefined });
console.log(out.failed, out.seed, out.counterexamplePath, runs, steps, statements, ids, Math.round(runs / (performance.now() - t) * 1000), "per s");
if (out.failed) {
  console.log(String(out.errorInstance), out.numRuns, out.numShrinks);
  console.log(printed(out.counterexample![0]));
}
