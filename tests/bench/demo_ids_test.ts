import { assertEquals } from "@std/assert";
import { IdSet } from "../../bench/demo_ids.ts";

function add(set: IdSet, ...ids: readonly bigint[]): void {
  for (const id of ids) set.add(Number(id >> 32n), Number(id & 0xffffffffn));
}

/** The ids at whose neighbours a bit, a word, a page or a half of an id ends. */
const edges = [
  0n,
  31n,
  32n,
  65_535n,
  65_536n,
  2n ** 31n,
  2n ** 32n - 1n,
  2n ** 32n,
  2n ** 63n - 1n,
];

Deno.test("ids are told apart whatever their size", () => {
  const set = new IdSet();
  add(set, ...edges, ...edges.slice(1, -1).map((id) => id + 2n));
  assertEquals(set.duplicates, []);
  assertEquals(set.size, 2 * edges.length - 2);
});

Deno.test("an id that came twice is found by its value, each time that it comes again", () => {
  const set = new IdSet();
  add(set, ...edges, ...edges.toReversed(), 32n);
  assertEquals(set.duplicates, [...edges.toReversed(), 32n]);
  assertEquals(set.size, edges.length);
});
