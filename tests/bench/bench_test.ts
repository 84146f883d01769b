import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { type ChildProcess, spawn } from "node:child_process";
import process from "node:process";
import { clearTimeout, setTimeout } from "node:timers";
import { fileURLToPath } from "node:url";
import type { Results } from "../../bench/report.ts";
import { familyOf, onDatabase } from "../../bench/client.ts";
import { driversOf } from "../../bench/drivers/mod.ts";
import { sql } from "../../mod.ts";
import { askedServers } from "../servers/asked.ts";
import { until } from "../servers/until.ts";
import { startTdsDatabase } from "../tds/database.ts";

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const short = ["--concurrency", "1,2", "--seconds", "0.02", "--rounds", "2"];

/** Runs the benchmark to its end. */
function bench(...args: readonly string[]): Promise<Ended> {
  return start(args).ended;
}

function start(
  args: readonly string[],
): { child: ChildProcess; ended: Promise<Ended>; errors: () => string } {
  const program = fileURLToPath(new URL("../../bench/main.ts", import.meta.url));
  const child = spawn(process.execPath, ["run", "-A", "-q", program, ...args]);
  const timer = setTimeout(() => child.kill("SIGKILL"), 60_000);
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (piece) => stdout += piece);
  child.stderr.on("data", (piece) => stderr += piece);
  const ended = new Promise<Ended>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", (code) => {
      clearTimeout(timer);
      resolve({ code, stdout, stderr });
    });
  });
  return { child, ended, errors: () => stderr };
}

const candidates = ["fencepost", "bare", "transaction", "fencepost-grouped", "bare-hot-key"];

function checkResults(stdout: string): Results {
  const results: Results = JSON.parse(stdout);
  assertEquals(Object.keys(results).sort(), ["rows", "suite", "versions"]);
  assertEquals(results.suite, "reserve");
  assertEquals(
    results.rows.map(({ candidate, concurrency }) => `${candidate} ${concurrency}`),
    [1, 2].flatMap((callers) => candidates.map((candidate) => `${candidate} ${callers}`)),
  );
  for (const row of results.rows) {
    const { candidate: _, ...figures } = row;
    const names = ["concurrency", "opsPerSecond", "p50Ms", "p99Ms"];
    assertEquals(Object.keys(figures).sort(), names);
    for (const figure of Object.values(figures)) assert(figure > 0);
  }
  return results;
}

Deno.test("--json prints one object of the form that every suite keeps", async () => {
  const { code, stdout } = await bench("reserve", ...short, "--json");
  assertEquals(code, 0);
  const { versions } = checkResults(stdout);
  assertMatch(versions.database ?? "", /^SQLite 3\./);
  assertMatch(versions.deno ?? "", /^2\./);
});

Deno.test("without --json the results are tables on stdout, and progress is on stderr", async () => {
  const { code, stdout, stderr } = await bench("reserve", ...short);
  assertEquals(code, 0);
  for (const name of candidates) assertStringIncludes(stdout, name);
  assertMatch(stdout, /fencepost \/ bare +1 caller +\d+\.\d\d +±/);
  assert(!stderr.includes("fencepost / bare"));
});

for (const { name, url, version } of askedServers()) {
  const family = familyOf(url);
  // A pooler does not keep what drivers prepare. Those without a server are measured above.
  if (["sqlite", "pglite"].includes(family) || name === "pgbouncer") continue;
  for (const { name: driver } of await driversOf(family)) {
    Deno.test(`${name} (${driver}) › the benchmark runs, and leaves no table behind`, async () => {
      const args = ["--db", url, "--driver", driver, "--json"];
      const { code, stdout } = await bench("reserve", ...short, ...args);
      assertEquals(code, 0);
      const { versions } = checkResults(stdout);
      assertMatch(versions.database ?? "", /^[\w ]+ \d/);
      assertStringIncludes(versions.database ?? "", version);
      assertMatch(versions[driver] ?? "", /^\d+\.\d+\.\d+$/);
      const left = await onDatabase(url, async (database) => {
        const { rows } = await database.query(
          sql`
            select table_name from information_schema.tables
            where table_name like 'fencepost_bench%'
          `,
          { name: "test.tables", deadline: database.deadline({}) },
        );
        return rows.length;
      });
      assertEquals(left, 0);
    });
  }
}

Deno.test("the benchmark measures mssql", async () => {
  await using server = await startTdsDatabase();
  const { code, stdout } = await bench("reserve", ...short, "--db", server.url, "--json");
  assertEquals(code, 0);
  checkResults(stdout);
  assertMatch(server.asked.at(-1)?.text ?? "", /^drop table if exists \[fencepost_bench_\w+\]$/);
});

Deno.test("Ctrl-C ends the benchmark", async () => {
  const { child, ended, errors } = start(["reserve", "--seconds", "0.5", "--concurrency", "1"]);
  await until(() => errors().includes("reserve ") || undefined, {
    what: "the first line of progress",
  });
  process.kill(child.pid!, "SIGINT");
  const { code, stdout } = await ended;
  assertEquals({ code, stdout }, { code: 130, stdout: "" });
});

for (
  const [why, args] of [
    ["no suite", []],
    ["an unknown suite", ["speed"]],
    ["two suites", ["reserve", "reserve"]],
    ["an unknown option", ["reserve", "--fast"]],
    ["an option without its value", ["reserve", "--db", "--json"]],
    ["a database and a server", ["reserve", "--db", "sqlite:x", "--server", "sqlite"]],
    ["no callers", ["reserve", "--concurrency", "0"]],
    ["callers that are no number", ["reserve", "--concurrency", "1,x"]],
    ["no time", ["reserve", "--seconds", "0"]],
    ["half a round", ["reserve", "--rounds", "1.5"]],
    ["a driver of another database", ["reserve", "--driver", "pg"]],
  ] as const
) {
  Deno.test(`the benchmark refuses ${why} in one line`, async () => {
    const { code, stdout, stderr } = await bench(...args);
    assertEquals({ code, stdout }, { code: 2, stdout: "" });
    assertMatch(stderr, /^Cannot run benchmark: [^\n]+\n$/);
  });
}

Deno.test("a server that does not exist is refused with those that do", async () => {
  const { code, stderr } = await bench("reserve", "--server", "oracle");
  assertEquals(code, 2);
  assertMatch(stderr, /^Cannot start database: there are sqlite, pglite, .*received "oracle"\n$/);
});

Deno.test("a database that cannot be reached is told without its password", async () => {
  const { code, stderr } = await bench("reserve", "--db", "postgres://u:s3cr3t@127.0.0.1:1/db");
  assertEquals(code, 1);
  assert(!stderr.includes("s3cr3t"), stderr);
  assertEquals(stderr.trimEnd().split("\n").length, 1);
});

Deno.test("--help names every option", async () => {
  const { code, stdout } = await bench("--help");
  assertEquals(code, 0);
  for (const option of ["--db", "--server", "--concurrency", "--seconds", "--rounds", "--json"]) {
    assertStringIncludes(stdout, option);
  }
});
