import { assertEquals } from "@std/assert";
import { mutants } from "./mutants.ts";

const root = new URL("../../", import.meta.url);

Deno.test("what a mutant replaces stands in its file exactly once", async () => {
  for (const { breaks, file, find, replace } of mutants) {
    const pieces = (await Deno.readTextFile(new URL(file, root))).split(find);
    assertEquals(pieces.length - 1, 1, `${breaks}: ${file} holds ${find}`);
    assertEquals(find === replace, false, breaks);
  }
});
