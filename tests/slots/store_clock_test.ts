import { assert, assertEquals } from "@std/assert";
import { StoreClock } from "../../core/slot/store_clock.ts";

/** What an answer tells: the store clock, and when the statement was sent and answered. */
function reading(storeMs: number, sentMs: number, receivedMs: number) {
  return { storeMs, sentMs, receivedMs };
}

Deno.test("before the first answer the store clock is not known", () => {
  assertEquals(new StoreClock().estimate(5_000), undefined);
});

Deno.test("the first answer tells of no move", () => {
  assertEquals(new StoreClock().observe(reading(1_000_000, 10, 20)), 0);
});

Deno.test("the clock runs on from when the answer arrived: the estimate is not ahead of it", () => {
  const clock = new StoreClock();
  clock.observe(reading(1_000_000, 100, 180));
  assertEquals(clock.estimate(180), 1_000_000);
  assertEquals(clock.estimate(1_180), 1_001_000);
  for (const readMs of [100, 140, 180]) {
    // The clock was read at some moment between sending and receiving.
    const trueMs = (monotonicMs: number) => 1_000_000 + monotonicMs - readMs;
    for (const nowMs of [180, 200, 5_000]) {
      assert((clock.estimate(nowMs) ?? Infinity) <= trueMs(nowMs), `read at ${readMs}`);
    }
  }
});

Deno.test("an estimate is a whole millisecond, cut rather than rounded up", () => {
  const clock = new StoreClock();
  clock.observe(reading(1_000_000, 0, 0.25));
  assertEquals(clock.estimate(0.5), 1_000_000);
  assertEquals(clock.estimate(1.2), 1_000_000);
  assertEquals(clock.estimate(1.25), 1_000_001);
});

Deno.test("the latest answer counts, also if it tells an earlier time", () => {
  const clock = new StoreClock();
  clock.observe(reading(1_000_000, 100, 100));
  clock.observe(reading(900_000, 200, 200));
  assertEquals(clock.estimate(300), 900_100);
});

Deno.test("an answer to what was sent before the one that is known is dropped", () => {
  const clock = new StoreClock();
  clock.observe(reading(1_000_000, 100, 110));
  assertEquals(clock.observe(reading(500_000, 90, 120)), 0);
  assertEquals(clock.estimate(210), 1_000_100);
});

Deno.test("a clock that runs true has not moved, however long the answers take", () => {
  for (const readMs of [1_000, 1_040, 1_080]) {
    for (const nextReadMs of [6_000, 6_250, 6_500]) {
      const clock = new StoreClock();
      clock.observe(reading(Math.floor(700_000.5 + readMs), 1_000, 1_080));
      assertEquals(clock.observe(reading(Math.floor(700_000.5 + nextReadMs), 6_000, 6_500)), 0);
    }
  }
});

Deno.test("a move is told with its direction, and by no more than is certain", () => {
  for (const byMs of [60_000, 5_000, -5_000, -60_000]) {
    for (const readMs of [6_000, 6_050, 6_100]) {
      const clock = new StoreClock();
      clock.observe(reading(701_000, 1_000, 1_000));
      const told = clock.observe(reading(700_000 + readMs + byMs, 6_000, 6_100));
      assertEquals(Math.sign(told), Math.sign(byMs));
      assert(Math.abs(told) <= Math.abs(byMs), `${told} of ${byMs}`);
      assert(Math.abs(told) >= Math.abs(byMs) - 101, `${told} of ${byMs}`);
    }
  }
});

Deno.test("a move is told once", () => {
  const clock = new StoreClock();
  clock.observe(reading(701_000, 1_000, 1_000));
  assertEquals(clock.observe(reading(762_000, 2_000, 2_000)), 59_999);
  assertEquals(clock.observe(reading(763_000, 3_000, 3_000)), 0);
});
