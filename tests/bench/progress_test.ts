import { assertEquals, assertLessOrEqual, assertStringIncludes } from "@std/assert";
import { barLine } from "../../bench/progress.ts";

const half = { what: "drawing ids", progress: 0.5, note: "1,234,567 ids" };

Deno.test("a bar is as wide as there is room, and says how much is done", () => {
  const line = barLine({ ...half, columns: 80 });
  assertStringIncludes(line, `drawing ids ${"█".repeat(20)}${"░".repeat(20)}  50%  1,234,567 ids`);
  assertStringIncludes(barLine({ ...half, columns: 50 }), "drawing ids ███");
  assertEquals(
    barLine({ ...half, progress: 0.999, columns: 36 }),
    "drawing ids   99%  1,234,567 id",
  );
});

Deno.test("a bar and a ^C after it fit on one line, whatever the width of the terminal", () => {
  for (let columns = 1; columns <= 200; columns++) {
    assertLessOrEqual(barLine({ ...half, columns }).length, Math.max(0, columns - 3));
  }
});
