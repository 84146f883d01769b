import { assertEquals } from "@std/assert";
import { readReport, tally } from "./report.ts";

const report = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="deno test" tests="9" failures="2" errors="0" time="0.009">
  <testsuite name="./a_test.ts" tests="6" disabled="2" errors="0" failures="1">
    <testcase name="sqlite › a rule" classname="./a_test.ts" time="0.005" line="2" col="1">
    </testcase>
    <testcase name="pg-15 (js) › a &quot;rule&quot;" classname="./a_test.ts" time="0.001">
      <failure message="Uncaught Error: &lt;skipped/&gt;">Error: &lt;skipped/&gt;</failure>
    </testcase>
    <testcase name="ignored" classname="./a_test.ts" time="0.000" line="11" col="11">
      <skipped/>
    </testcase>
    <testcase name="filtered out" classname="./a_test.ts" line="12" col="11">
      <skipped/>
    </testcase>
    <testcase name="group" classname="./a_test.ts" time="0.001" line="1" col="1"></testcase>
    <testcase name="broken" classname="./a_test.ts" time="0.001" line="1" col="1">
      <failure message="before all">Error</failure>
    </testcase>
  </testsuite>
  <testsuite name="ext:deno_node/testing.ts" tests="5" disabled="1" errors="0" failures="0">
    <testcase name="group &gt; one" classname="ext" time="0.000" line="1" col="1"></testcase>
    <testcase name="group &gt; two" classname="ext" time="0.000" line="1" col="1">
      <skipped/>
    </testcase>
    <testcase name="broken &gt; one" classname="ext" time="0.000" line="1" col="1"></testcase>
  </testsuite>
</testsuites>`;

Deno.test("a report has every case that ran or was ignored, and groups by their steps", () => {
  assertEquals(readReport(report), [
    { name: "sqlite › a rule", result: "passed" },
    { name: 'pg-15 (js) › a "rule"', result: "failed" },
    { name: "ignored", result: "ignored" },
    { name: "broken", result: "failed" },
    { name: "group > one", result: "passed" },
    { name: "group > two", result: "ignored" },
    { name: "broken > one", result: "passed" },
  ]);
});

Deno.test("a case counts for the database that its name begins with", () => {
  assertEquals(
    [...tally(readReport(report), ["sqlite", "pg-15", "pg"])],
    [
      ["sqlite", { passed: 1, failed: 0 }],
      ["pg-15", { passed: 0, failed: 1 }],
      ["pg", { passed: 0, failed: 0 }],
      ["other", { passed: 2, failed: 1 }],
    ],
  );
});

Deno.test("a case in a runtime counts for the runtime, whatever the database", () => {
  const names = [
    "pg-15 (pg, bun 1.4) › a rule",
    "sqlite (bun 1.4) › a rule",
    "bun 1.4 › a rule › of two (node 20)",
    "pg-15 (pg, node 20) › a rule",
    "pg-15 (pg) › a rule",
    "a rule (bun 1.4)",
  ];
  const outcomes = names.map((name) => ({ name, result: "passed" as const }));
  assertEquals(
    [...tally(outcomes, ["node 20", "bun 1.4", "pg-15"])].map((
      [name, { passed }],
    ) => [name, passed]),
    [["node 20", 1], ["bun 1.4", 3], ["pg-15", 1], ["other", 1]],
  );
});
