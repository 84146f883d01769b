/**
 * Runs every test on every database that this machine can start, and the npm package in every
 * runtime that it can obtain: `deno task test [arguments of deno test]`.
 * `TEST_DATABASES=sqlite,postgresql-15` names the databases that must run, and no others do;
 * `postgresql` names every version of it. `TEST_RUNTIMES="node 20,bun 1.4"` names the runtimes. Who
 * asks for PostgreSQL and names no runtime asks for all of them. `--report` writes the table of the
 * README, if nothing failed.
 *
 * It fails if a test failed, was ignored, or none ran; and if a database or runtime that was asked
 * for is unknown, could not start, or had no case while no filter was given. Its last line says how
 * many cases passed and failed. The databases end with it, whatever ends it.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { tableOf, withTable } from "./readme.ts";
import { askedRuntimesVariable, type RuntimeAddress, runtimes } from "./runtimes/mod.ts";
import { askedServersVariable } from "./servers/asked.ts";
import { type RunningServer, servers, type TestServer } from "./servers/mod.ts";
import { other, type Outcome, readReport, tally } from "./servers/report.ts";
import { printTable } from "./table.ts";

/** A database or runtime that does not run, and why. */
interface Absent {
  readonly name: string;
  readonly reason: string;
  /** Whether that fails the run. */
  readonly asked: boolean;
}

if (import.meta.main) {
  const interruption = new AbortController();
  const interrupt = () => interruption.signal.aborted ? Deno.exit(130) : interruption.abort();
  Deno.addSignalListener("SIGINT", interrupt);
  Deno.addSignalListener("SIGTERM", interrupt);
  const args = Deno.args.filter((arg) => arg !== "--report");
  const report = args.length < Deno.args.length;
  const failed = await runAll({ args, report, interrupted: interruption.signal }).catch((error) => {
    console.error(error);
    console.log("0 passed, 1 failed");
    return true;
  });
  Deno.exit(interruption.signal.aborted ? 130 : failed ? 1 : 0);
}

/** What was named in the environment, and what that leaves out. */
interface Choice<T> {
  readonly chosen: readonly T[];
  readonly absent: readonly Absent[];
  /** Whether there was a choice. */
  readonly asked: boolean;
}

/** Chooses what the variable of the environment names, or else everything. */
function choose<T extends { readonly name: string }>(
  variable: string,
  all: readonly T[],
): Choice<T> {
  const names = Deno.env.get(variable)?.split(",").map((name) => name.trim())
    .filter((name) => name !== "");
  if (!names?.length) return { chosen: all, absent: [], asked: false };
  const chosen = all.filter((one) => names.some((name) => isCalled(one.name, name)));
  const unknown = names.filter((name) => !all.some((one) => isCalled(one.name, name)));
  const known = all.map(({ name }) => name).join(", ");
  return {
    chosen,
    absent: [
      ...unknown.map((name) => ({ name, reason: `unknown: there are ${known}`, asked: true })),
      ...all.filter((one) => !chosen.includes(one))
        .map(({ name }) => ({ name, reason: `not in ${variable}`, asked: false })),
    ],
    asked: true,
  };
}

/** Whether a name means one: "mysql-9.7" is meant by its full name, and by "mysql". */
function isCalled(fullName: string, name: string): boolean {
  return fullName === name || fullName.startsWith(`${name}-`);
}

interface RunOptions {
  /** The arguments for `deno test`. */
  readonly args: readonly string[];
  /** Whether to write the table of the README. */
  readonly report: boolean;
  readonly interrupted: AbortSignal;
}

/** Resolves with whether the run failed. */
async function runAll({ args, report, interrupted }: RunOptions): Promise<boolean> {
  const database = choose("TEST_DATABASES", servers);
  const runtime = choose("TEST_RUNTIMES", runtimes);
  const absent = [...database.absent, ...runtime.absent];
  const running: RunningServer[] = [];
  const obtained: RuntimeAddress[] = [];
  const asked = new Set([
    ...(database.asked ? database.chosen : []),
    ...(runtime.asked || asksForPostgresql(database) ? runtime.chosen : []),
  ].map(({ name }) => name));
  let result: TestResult = { outcomes: [], code: 1 };
  try {
    if (!absent.some(({ asked }) => asked)) {
      const [started, fetched] = await Promise.all([
        Promise.all(database.chosen.map((server) => attempt(server.name, () => start(server)))),
        Promise.all(runtime.chosen.map(({ name, obtain }) => attempt(name, obtain))),
      ]);
      running.push(...started.flatMap(({ value }) => value ?? []));
      obtained.push(...fetched.flatMap(({ value }) => value ?? []));
      for (const { name, reason } of [...started, ...fetched]) {
        if (reason !== undefined) absent.push({ name, reason, asked: asked.has(name) });
      }
      if (!interrupted.aborted) result = await test(args, { running, obtained, interrupted });
    }
  } finally {
    await Promise.all(running.map((server) => server.stop()));
  }
  const present = [...running, ...obtained];
  const narrowed = args.some(narrows);
  const failed = print({ ...result, present, absent, asked, narrowed });
  if (report && !failed && !narrowed) await writeTable(result.outcomes);
  return failed;
}

function asksForPostgresql({ asked, chosen }: Choice<TestServer>): boolean {
  return asked && chosen.some(({ name }) => name.startsWith("postgresql-"));
}

/** What came of an attempt to have something: it, or why not. */
interface Attempt<T> {
  readonly name: string;
  readonly value?: T;
  readonly reason?: string;
}

async function attempt<T>(name: string, work: () => Promise<T>): Promise<Attempt<T>> {
  try {
    return { name, value: await work() };
  } catch (error) {
    return { name, reason: error instanceof Error ? error.message : String(error) };
  }
}

async function start(server: TestServer): Promise<RunningServer> {
  const reason = await server.unavailable();
  if (reason !== undefined) throw new Error(reason);
  return await server.start();
}

interface TestResult {
  readonly outcomes: readonly Outcome[];
  /** How `deno test` ended. */
  readonly code: number;
}

interface TestOptions {
  readonly running: readonly RunningServer[];
  readonly obtained: readonly RuntimeAddress[];
  readonly interrupted: AbortSignal;
}

async function test(
  args: readonly string[],
  { running, obtained, interrupted }: TestOptions,
): Promise<TestResult> {
  const report = await Deno.makeTempFile({ prefix: "fencepost-report-", suffix: ".xml" });
  try {
    const addresses = running.map(({ name, url, version }) => ({ name, url, version }));
    const child = new Deno.Command(Deno.execPath(), {
      args: ["test", "-A", `--junit-path=${report}`, ...args],
      cwd: fileURLToPath(new URL("..", import.meta.url)),
      env: {
        [askedServersVariable]: JSON.stringify(addresses),
        [askedRuntimesVariable]: JSON.stringify(obtained),
      },
    }).spawn();
    const end = () => child.kill("SIGTERM");
    interrupted.addEventListener("abort", end);
    const { code } = await child.status;
    interrupted.removeEventListener("abort", end);
    return { outcomes: readReport(await Deno.readTextFile(report)), code };
  } finally {
    await Deno.remove(report);
  }
}

async function writeTable(outcomes: readonly Outcome[]): Promise<void> {
  const file = new URL("../README.md", import.meta.url);
  const rows = tableOf(outcomes, servers.map(({ name }) => name));
  await Deno.writeTextFile(file, withTable(await Deno.readTextFile(file), rows));
}

/** Whether an argument leaves cases out on purpose: a filter, or a path. */
function narrows(arg: string): boolean {
  return arg.startsWith("--filter") || !arg.startsWith("-");
}

interface Summary extends TestResult {
  /** The databases and runtimes that the tests had. */
  readonly present: readonly { readonly name: string; readonly version: string }[];
  readonly absent: readonly Absent[];
  /** The names of those that were asked for. */
  readonly asked: ReadonlySet<string>;
  readonly narrowed: boolean;
}

/** Returns whether the run failed. */
function print({ outcomes, code, present, absent, asked, narrowed }: Summary): boolean {
  const tallies = tally(outcomes, present.map(({ name }) => name));
  const rows = [["database or runtime", "version", "passed", "failed"]];
  for (const { name, version } of [...present, { name: other, version: "" }]) {
    const { passed = 0, failed = 0 } = tallies.get(name) ?? {};
    rows.push([name, version, String(passed), String(failed)]);
  }
  console.log();
  printTable(rows);
  for (const { name, reason } of absent) console.log(`${name} did not run: ${reason}`);

  const counts = [...tallies.values()];
  const passed = counts.reduce((sum, tally) => sum + tally.passed, 0);
  const failed = counts.reduce((sum, tally) => sum + tally.failed, 0);
  const problems = absent.filter(({ asked }) => asked).map(({ name }) => `${name} did not run`);
  for (const { name, result } of outcomes) {
    if (result === "ignored") problems.push(`ignored: ${name}`);
  }
  for (const [name, tally] of tallies) {
    const empty = tally.passed + tally.failed === 0;
    if (empty && asked.has(name) && !narrowed) problems.push(`${name} has no case`);
  }
  if (passed + failed === 0) problems.push("no test ran");
  else if (code !== 0 && failed === 0) problems.push(`deno test ended with ${code}`);
  for (const problem of problems) console.log(`failed: ${problem}`);

  console.log(`${passed} passed, ${failed + problems.length} failed`);
  return failed + problems.length > 0;
}
