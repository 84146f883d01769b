import { databases } from "./databases/mod.ts";
import { rangeCases } from "./tck/mod.ts";

for (const database of databases()) {
  for (const { name, run } of rangeCases) {
    Deno.test(`${database.name} › ${name}`, () => database.run(run));
  }
}
