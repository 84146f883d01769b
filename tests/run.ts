/**
 * Runs every test on every database that this machine can start: `deno task test [arguments of
 * deno test]`. `TEST_DATABASES=sqlite,postgresql-15` names those that must run, and no others do.
 *
 * It fails if a test failed, was ignored, or none ran; and if a database that was asked for is
 * unknown, could not start, or had no case while no filter was given. Its last line says how many
 * cases passed and failed. The databases end with it, whatever ends it.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { askedServersVariable } from "./servers/asked.ts";
import { type RunningServer, servers, type TestServer } from "./servers/mod.ts";
import { other, type Outcome, readReport, tally } from "./servers/report.ts";
import { printTable } from "./table.ts";

/** A database that does not run, and why. */
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
  const failed = await runAll(Deno.args, interruption.signal).catch((error) => {
    console.error(error);
    console.log("0 passed, 1 failed");
    return true;
  });
  Deno.exit(interruption.signal.aborted ? 130 : failed ? 1 : 0);
}

/** Resolves with whether the run failed. */
async function runAll(args: readonly string[], interrupted: AbortSignal): Promise<boolean> {
  const asked = Deno.env.get("TEST_DATABASES")?.split(",").map((name) => name.trim())
    .filter((name) => name !== "");
  const wanted = asked?.length ? asked : undefined;
  const unknown = (wanted ?? []).filter((name) => !servers.some((server) => server.name === name));
  const absent: Absent[] = unknown.map((name) => ({
    name,
    reason: `unknown: there are ${servers.map((server) => server.name).join(", ")}`,
    asked: true,
  }));
  const chosen = servers.filter(({ name }) => wanted?.includes(name) ?? true);
  for (const { name } of servers.filter((server) => !chosen.includes(server))) {
    absent.push({ name, reason: "not in TEST_DATABASES", asked: false });
  }

  const running: RunningServer[] = [];
  let result: TestResult = { outcomes: [], code: 1 };
  try {
    if (unknown.length === 0) {
      const started = await Promise.all(chosen.map((server) => start(server)));
      for (const one of started) {
        if ("reason" in one) absent.push({ ...one, asked: wanted !== undefined });
        else running.push(one);
      }
      if (!interrupted.aborted) result = await test(args, { running, interrupted });
    }
  } finally {
    await Promise.all(running.map((server) => server.stop()));
  }
  return print({ ...result, running, absent, wanted, narrowed: args.some(narrows) });
}

async function start(server: TestServer): Promise<RunningServer | Omit<Absent, "asked">> {
  const { name } = server;
  try {
    const reason = await server.unavailable();
    return reason === undefined ? await server.start() : { name, reason };
  } catch (error) {
    return { name, reason: error instanceof Error ? error.message : String(error) };
  }
}

interface TestResult {
  readonly outcomes: readonly Outcome[];
  /** How `deno test` ended. */
  readonly code: number;
}

interface TestOptions {
  readonly running: readonly RunningServer[];
  readonly interrupted: AbortSignal;
}

async function test(
  args: readonly string[],
  { running, interrupted }: TestOptions,
): Promise<TestResult> {
  const report = await Deno.makeTempFile({ prefix: "fencepost-report-", suffix: ".xml" });
  try {
    const addresses = running.map(({ name, url, version }) => ({ name, url, version }));
    const child = new Deno.Command(Deno.execPath(), {
      args: ["test", "-A", `--junit-path=${report}`, ...args],
      cwd: fileURLToPath(new URL("..", import.meta.url)),
      env: { [askedServersVariable]: JSON.stringify(addresses) },
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

/** Whether an argument leaves cases out on purpose: a filter, or a path. */
function narrows(arg: string): boolean {
  return arg.startsWith("--filter") || !arg.startsWith("-");
}

interface Summary extends TestResult {
  readonly running: readonly RunningServer[];
  readonly absent: readonly Absent[];
  readonly wanted: readonly string[] | undefined;
  readonly narrowed: boolean;
}

/** Returns whether the run failed. */
function print({ outcomes, code, running, absent, wanted, narrowed }: Summary): boolean {
  const tallies = tally(outcomes, running.map(({ name }) => name));
  const rows = [["database", "version", "passed", "failed"]];
  for (const [name, { passed, failed }] of tallies) {
    const version = running.find((server) => server.name === name)?.version ?? "";
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
    const empty = name !== other && tally.passed + tally.failed === 0;
    if (empty && wanted !== undefined && !narrowed) problems.push(`${name} has no case`);
  }
  if (passed + failed === 0) problems.push("no test ran");
  else if (code !== 0 && failed === 0) problems.push(`deno test ended with ${code}`);
  for (const problem of problems) console.log(`failed: ${problem}`);

  console.log(`${passed} passed, ${failed + problems.length} failed`);
  return failed + problems.length > 0;
}
