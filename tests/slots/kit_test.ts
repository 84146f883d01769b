import { databases } from "../databases/mod.ts";
import { slotCases } from "../tck/mod.ts";

for (const database of databases()) {
  for (const { name, run } of slotCases) {
    Deno.test(`${database.name} › ${name}`, () => database.run(run));
  }
}
