import { databases } from "./databases/mod.ts";
import { tckCases } from "./tck/mod.ts";

for (const database of databases()) {
  for (const { name, run } of tckCases) {
    Deno.test(`${database.name} › ${name}`, () => database.run(run));
  }
}
