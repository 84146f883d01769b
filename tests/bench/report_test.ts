import { assertEquals } from "@std/assert";
import type { Measured } from "../../bench/harness.ts";
import { comparisonTable, disagreements, resultRows, resultTable } from "../../bench/report.ts";

function measured(candidate: string, speeds: readonly number[], concurrency = 1): Measured {
  const samples = speeds.map((opsPerSecond) => ({
    opsPerSecond,
    p50Ms: 1_000 / opsPerSecond,
    p99Ms: 2_000 / opsPerSecond,
  }));
  return { candidate, concurrency, samples };
}

Deno.test("a row holds the medians over the rounds", () => {
  assertEquals(resultRows([measured("a", [1_000, 10, 2_000], 16)]), [
    { candidate: "a", concurrency: 16, opsPerSecond: 1_000, p50Ms: 1, p99Ms: 2 },
  ]);
});

Deno.test("a table tells how far the rounds lay apart", () => {
  const [, row] = resultTable([measured("a", [900, 1_000, 1_100, 1_000, 1_200])]);
  assertEquals(row, ["1", "a", "1,000", "±5.0 %", "1.000", "2.000"]);
});

Deno.test("a ratio is the median of the rounds' ratios, not the ratio of medians", () => {
  // The machine was slower in each round; beside each other, the candidate is always half as fast.
  const rows = comparisonTable(
    [measured("ours", [100, 40, 10]), measured("bare", [200, 80, 20])],
    [{ candidate: "ours", reference: "bare" }],
  );
  assertEquals(rows.slice(1), [["ours / bare", "1 caller", "0.50", "±0.0 %"]]);
});

Deno.test("candidates are compared at the same number of callers, and only where both ran", () => {
  const rows = comparisonTable(
    [measured("ours", [10], 1), measured("ours", [30], 16), measured("bare", [15], 16)],
    [{ candidate: "ours", reference: "bare" }, { candidate: "ours", reference: "absent" }],
  );
  assertEquals(rows.slice(1), [["ours / bare", "16 callers", "2.00", "±0.0 %"]]);
});

Deno.test("rounds that disagree are named, and no others", () => {
  assertEquals(
    disagreements([
      measured("steady", [1_000, 1_010, 990, 1_005, 5]),
      measured("unsteady", [500, 1_000, 1_500], 16),
    ]),
    ["the rounds of unsteady at 16 callers disagree by ±25.0 %"],
  );
});
