import { assertEquals, assertThrows } from "@std/assert";
import { tableOf, withTable } from "./readme.ts";
import { tckCases } from "./tck/mod.ts";

const [first, second] = tckCases.map(({ name }) => name);

Deno.test("the table counts the kit's cases that passed, by database, driver and runtime", () => {
  const outcomes = [
    { name: `sqlite › ${first}`, result: "passed" },
    { name: `sqlite › ${second}`, result: "failed" },
    { name: `sqlite › a rule that is not the kit's`, result: "passed" },
    { name: `postgresql-15 (pg) › ${first}`, result: "passed" },
    { name: `postgresql-15 (pg) › ${second}`, result: "passed" },
    { name: `postgresql-15 (postgres) › ${first}`, result: "passed" },
    { name: `postgresql-15 (pg, node 20) › ${first}`, result: "passed" },
    { name: `sqlite (bun 1.4) › ${first}`, result: "passed" },
    { name: `other › ${first}`, result: "passed" },
  ] as const;
  const [head, ...rows] = tableOf(outcomes, ["sqlite", "postgresql-15", "h2"]);
  assertEquals(head, [
    `${tckCases.length} cases`,
    "driver",
    "deno",
    "node 20",
    "node 22",
    "node 24",
    "bun 1.4",
  ]);
  assertEquals(rows, [
    ["sqlite", "", "1", "", "", "", "1"],
    ["postgresql-15", "pg", "2", "1", "", "", ""],
    ["postgresql-15", "postgres", "1", "", "", "", ""],
    ["h2", "", "did not run", "", "", "", ""],
  ]);
});

Deno.test("the table takes the place of the one before, and of nothing else", () => {
  const readme = withTable(
    "# Title\n\n<!-- written by `deno task test --report` -->\n\nold\n\n<!-- end -->\n\nmore\n",
    [["a", "long head"], ["longer", "x"]],
  );
  assertEquals(
    readme,
    "# Title\n\n<!-- written by `deno task test --report` -->\n\n" +
      "| a      | long head |\n| ------ | --------- |\n| longer | x         |\n" +
      "\n<!-- end -->\n\nmore\n",
  );
  assertEquals(withTable(readme, [["a", "long head"], ["longer", "x"]]), readme);
  assertThrows(() => withTable("# Title\n", [["a"]]), Error);
});
