import { assertEquals, assertRejects, assertStrictEquals, assertThrows } from "@std/assert";
import { InTransactionError } from "../../core/errors.ts";
import { GroupReserve } from "../../core/range/group_reserve.ts";
import type { Range } from "../../core/range/range.ts";
import { Deadline } from "../../core/runtime.ts";
import { HandRuntime, settle } from "./hand_runtime.ts";

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

Deno.test("a group whose calls have all left holds up no other", async () => {
  const runtime = new HandRuntime();
  const answers: ((range: Range) => void)[] = [];
  const groups = new GroupReserve(runtime, () => new Promise((resolve) => answers.push(resolve)));
  const controller = new AbortController();
  const reserve = (signal?: AbortSignal) => {
    const deadline = new Deadline(runtime, { timeoutMs: 30_000, signal });
    return groups.reserve({ key: "order", size: 1n, initialOffset: 1n, deadline });
  };
  const first = reserve();
  const leaving = [reserve(controller.signal), reserve(controller.signal)];
  answers[0]?.({ start: 1n, end: 2n });
  assertEquals(await first, { start: 1n, end: 2n });
  await settle();
  assertEquals(answers.length, 2);

  const next = reserve();
  const reason = new Error("enough");
  controller.abort(reason);
  for (const call of leaving) assertStrictEquals(await assertRejects(() => call), reason);
  await settle();
  // The answer of the group that was left comes after that of the next one.
  answers[2]?.({ start: 4n, end: 5n });
  answers[1]?.({ start: 2n, end: 4n });
  assertEquals(await next, { start: 4n, end: 5n });
});

Deno.test("a call of a group ends as what its statement is blocked by", async () => {
  const runtime = new HandRuntime();
  const blocked = new InTransactionError("Cannot run range.reserve: a transaction is open");
  let statements = 0;
  const groups = new GroupReserve(runtime, ({ deadline }) => {
    if (statements++ === 0) return Promise.resolve({ start: 1n, end: 2n });
    deadline.blockedBy = blocked;
    return new Promise(() => {});
  });
  const reserve = () => {
    const deadline = new Deadline(runtime, { timeoutMs: 10 });
    return groups.reserve({ key: "order", size: 1n, initialOffset: 1n, deadline });
  };
  const calls = [reserve(), reserve(), reserve()];
  await calls[0];
  const settled = await runtime.drive(Promise.allSettled(calls.slice(1)));
  const reason = blocked;
  assertEquals(settled, [{ status: "rejected", reason }, { status: "rejected", reason }]);
});
