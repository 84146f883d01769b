import { assertEquals } from "@std/assert";
import { HighestEnds } from "../../core/range/highest_ends.ts";

const least = 50_000;
const most = 100_000;

/** Notes an end of so many keys that nobody else uses. */
function fill(ends: HighestEnds, count: number, prefix: string): void {
  for (let index = 0; index < count; index++) ends.raise(`${prefix} ${index}`, 1n);
}

Deno.test("the highest end of a key is known, and of no other", () => {
  const ends = new HighestEnds();
  assertEquals(ends.get("order"), undefined);
  ends.raise("order", 0n);
  assertEquals(ends.get("order"), 0n);
  assertEquals(ends.get("Order"), undefined);
});

Deno.test("a lower end than the highest changes nothing", () => {
  const ends = new HighestEnds();
  for (
    const [end, highest] of [[5n, 5n], [3n, 5n], [5n, 5n], [2n ** 62n, 2n ** 62n], [6n, 2n ** 62n]]
  ) {
    ends.raise("order", end ?? 0n);
    assertEquals(ends.get("order"), highest);
  }
});

Deno.test("the memory is bounded", () => {
  const ends = new HighestEnds();
  for (const prefix of ["first", "second", "third"]) fill(ends, most, prefix);
  const known = Array.from({ length: most }, (_, index) => [
    ends.get(`first ${index}`),
    ends.get(`second ${index}`),
    ends.get(`third ${index}`),
  ]).flat().filter((end) => end !== undefined);
  assertEquals(known.length >= least && known.length <= most, true, `${known.length} are known`);
  assertEquals(ends.get(`third ${most - 1}`), 1n);
});

Deno.test("a key that stays in use is never forgotten", () => {
  const ends = new HighestEnds();
  ends.raise("in use", 7n);
  fill(ends, least - 1, "early");
  for (let index = 0; index < 2 * most; index++) {
    ends.raise("in use", 5n);
    ends.raise(`late ${index}`, 1n);
  }
  assertEquals(ends.get("in use"), 7n);
  assertEquals(ends.get("early 0"), undefined);
});

Deno.test("of more keys than are kept, those used last are kept", () => {
  const ends = new HighestEnds();
  ends.raise("used again", 7n);
  fill(ends, least - 1, "once");
  ends.raise("used again", 8n);
  fill(ends, least - 1, "new");
  assertEquals(ends.get("used again"), 8n);
  assertEquals(ends.get("new 0"), 1n);
});
