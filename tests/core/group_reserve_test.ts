import { assertEquals, assertThrows } from "@std/assert";
import { GroupReserve } from "../../core/range/group_reserve.ts";
import type { Range } from "../../core/range/range.ts";
import { Deadline } from "../../core/runtime.ts";
import { HandRuntime } from "./hand_runtime.ts";

Deno.test("a group may be larger than the arguments that a function takes", async () => {
  const runtime = new HandRuntime();
  const statements: bigint[] = [];
  let next = 1n;
  const groups = new GroupReserve(runtime, async ({ size }) => {
    statements.push(size);
    await Promise.resolve();
    next += size;
    return { start: next - size, end: next };
  });
  const calls: Promise<Range>[] = [];
  for (let count = 0; count < 200_000; count++) {
    const deadline = new Deadline(runtime, { timeoutMs: 1_000 });
    calls.push(groups.reserve({ key: "order", size: 1n, initialOffset: 1n, deadline }));
  }
  const ranges = await Promise.all(calls);
  assertEquals(statements, [1n, 199_999n]);
  assertEquals(ranges.every(({ start }, index) => start === BigInt(index + 1)), true);
});

Deno.test("what throws before anything is sent holds up no later call", async () => {
  const runtime = new HandRuntime();
  let broken = true;
  const groups = new GroupReserve(runtime, () => {
    if (broken) throw new TypeError("broken");
    return Promise.resolve({ start: 1n, end: 2n });
  });
  const reserve = () => {
    const deadline = new Deadline(runtime, { timeoutMs: 1_000 });
    return groups.reserve({ key: "order", size: 1n, initialOffset: 1n, deadline });
  };
  assertThrows(reserve, TypeError, "broken");
  broken = false;
  assertEquals(await reserve(), { start: 1n, end: 2n });
});
