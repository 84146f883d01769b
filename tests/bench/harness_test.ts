import { assert, assertEquals, assertRejects } from "@std/assert";
import { setImmediate } from "node:timers";
import { type Candidate, countRuns, measure, type MeasureOptions } from "../../bench/harness.ts";

interface Watched extends Candidate {
  /** The number of callers of each run. */
  readonly prepared: number[];
}

function candidate(name: string, value = 1n): Watched {
  const prepared: number[] = [];
  return {
    name,
    prepared,
    prepare(callers) {
      prepared.push(callers);
      return Promise.resolve(async (caller) => {
        assert(caller >= 0 && caller < callers);
        await new Promise((resolve) => setImmediate(resolve));
        return value;
      });
    },
  };
}

function options(more: Partial<MeasureOptions> = {}): MeasureOptions {
  const { signal } = new AbortController();
  return { concurrency: [1, 3], seconds: 0.005, rounds: 2, signal, ...more };
}

Deno.test("every candidate has a sample for each round that counts, the warm-up has none", async () => {
  const candidates = [candidate("a"), candidate("b")];
  const measured = await measure(candidates, options());
  assertEquals(
    measured.map(({ candidate, concurrency, samples }) => [candidate, concurrency, samples.length]),
    [["a", 1, 2], ["b", 1, 2], ["a", 3, 2], ["b", 3, 2]],
  );
  for (const { opsPerSecond, p50Ms, p99Ms } of measured.flatMap(({ samples }) => samples)) {
    assert(opsPerSecond > 0 && p50Ms > 0 && p99Ms >= p50Ms);
  }
  const prepared = [1, 1, 1, 3, 3, 3];
  assertEquals(candidates.map((candidate) => candidate.prepared), [prepared, prepared]);
});

Deno.test("each round begins with the next candidate", async () => {
  const order: string[] = [];
  const beforeRun = (_done: number, next: string) => {
    order.push(next.split(", ").at(-1) ?? "");
    return Promise.resolve();
  };
  const candidates = [candidate("a"), candidate("b"), candidate("c")];
  await measure(candidates, options({ concurrency: [1], rounds: 3, beforeRun }));
  assertEquals(order.join(""), "abc" + "bca" + "cab" + "abc");
});

Deno.test("as many runs are announced as are counted beforehand", async () => {
  const done: number[] = [];
  const beforeRun = (before: number) => Promise.resolve(void done.push(before));
  const candidates = [candidate("a"), candidate("b")];
  await measure(candidates, options({ beforeRun }));
  assertEquals(done, Array.from({ length: countRuns(candidates, options()) }, (_, run) => run));
});

Deno.test("an interrupted measurement ends", async () => {
  const controller = new AbortController();
  const reason = new Error("enough");
  const { signal } = controller;
  const interrupting: Candidate = {
    name: "interrupting",
    prepare: () =>
      Promise.resolve(() => {
        controller.abort(reason);
        return Promise.resolve(1n);
      }),
  };
  const error = await assertRejects(() =>
    measure([interrupting], options({ signal, seconds: 3_600 }))
  );
  assertEquals(error, reason);
});

Deno.test("operations that give nothing are not measured", async () => {
  await assertRejects(() => measure([candidate("a", 0n)], options()), Error, "gave nothing");
});
