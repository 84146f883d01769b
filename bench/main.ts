/**
 * The benchmark: `deno task bench SUITE [options]`. `--help` tells the rest.
 *
 * Results go to stdout; progress and warnings go to stderr.
 *
 * @module
 */

import process from "node:process";
import { parseArgs } from "node:util";
import { FencepostError, InvalidArgumentError } from "../mod.ts";
import { listed, refusal } from "./arguments.ts";
import { driversOf } from "./drivers/mod.ts";
import { countRuns, measure } from "./harness.ts";
import { startProgress } from "./progress.ts";
import { comparisonTable, disagreements, resultRows, type Results, resultTable } from "./report.ts";
import { openReserveSuite } from "./reserve.ts";
import { openSnowflakeSuite } from "./snowflake.ts";
import { printTable } from "../tests/table.ts";
import { openTarget, serverNames } from "./target.ts";
import { versionsOf } from "./versions.ts";

const usage = `Usage: deno task bench SUITE [options]

Suites:
  reserve               id ranges, beside the driver alone
  snowflake             snowflake ids of one hold, in each format

Options:
  --db URL              a database that runs already; new tables named
                        fencepost_bench_ and 8 hexadecimal digits are created
                        there, and dropped in the end
  --server NAME         a throwaway server, one of
                        ${listed(serverNames, 24)}
                        (without either: SQLite in a temporary folder)
  --durable             the started server keeps what it committed through a
                        crash, as in production; without it the disk counts
                        less and the library's own work more
  --driver NAME         the driver, where a database has several
  --concurrency LIST    numbers of callers (1,16,64)
  --seconds N           how long a candidate runs in each round (3)
  --rounds N            how many rounds are counted (9)
  --json                prints one JSON object instead of tables
  --help                prints this`;

const suites = { reserve: openReserveSuite, snowflake: openSnowflakeSuite };

class UsageError extends Error {}

interface Arguments {
  readonly suite: keyof typeof suites;
  readonly url: string | undefined;
  readonly server: string | undefined;
  readonly durable: boolean;
  readonly driver: string | undefined;
  readonly concurrency: readonly number[];
  readonly seconds: number;
  readonly rounds: number;
  readonly json: boolean;
}

/** What the command line asks for; undefined if it asks for help. */
function readArguments(args: readonly string[]): Arguments | undefined {
  const { values, positionals } = parse(args);
  if (values.help) return undefined;
  const [suite, ...more] = positionals;
  if (suite === undefined || more.length > 0 || !isSuite(suite)) {
    const names = Object.keys(suites).join(", ");
    throw new UsageError(`name one suite of ${names}: received ${positionals.join(" ") || "none"}`);
  }
  if (values.db !== undefined && values.server !== undefined) {
    throw new UsageError("--db and --server exclude each other");
  }
  return {
    suite,
    url: values.db,
    server: values.server,
    durable: values.durable,
    driver: values.driver,
    concurrency: values.concurrency.split(",").map((text) => integer("--concurrency", text)),
    seconds: positive("--seconds", values.seconds),
    rounds: integer("--rounds", values.rounds),
    json: values.json,
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        db: { type: "string" },
        server: { type: "string" },
        durable: { type: "boolean", default: false },
        driver: { type: "string" },
        concurrency: { type: "string", default: "1,16,64" },
        seconds: { type: "string", default: "3" },
        rounds: { type: "string", default: "9" },
        json: { type: "boolean", default: false },
        help: { type: "boolean", short: "h", default: false },
      },
    });
  } catch (error) {
    throw new UsageError(refusal(error));
  }
}

function isSuite(name: string): name is keyof typeof suites {
  return Object.hasOwn(suites, name);
}

function integer(option: string, text: string): number {
  const value = /^\s*[0-9]+\s*$/.test(text) ? Number(text) : NaN;
  if (!(value >= 1 && value <= 10_000)) {
    throw new UsageError(`${option} takes whole numbers from 1 to 10,000: received "${text}"`);
  }
  return value;
}

function positive(option: string, text: string): number {
  const value = text.trim() === "" ? NaN : Number(text);
  if (!(value > 0 && value <= 3_600)) {
    throw new UsageError(`${option} takes a number above 0, up to 3,600: received "${text}"`);
  }
  return value;
}

async function run(asked: Arguments, signal: AbortSignal): Promise<void> {
  const { url, server, durable } = asked;
  await using target = await openTarget({ url, server, durable, signal });
  const drivers = await driversOf(target.family);
  const driver = drivers.find(({ name }) => name === (asked.driver ?? drivers[0]?.name));
  if (driver === undefined) {
    const names = drivers.map(({ name }) => name).join(", ");
    throw new UsageError(`--driver is one of ${names}: received "${asked.driver}"`);
  }
  await using suite = await suites[asked.suite](driver, target.url);
  const versions = { database: target.product, ...versionsOf(driver.name) };

  const options = { ...asked, signal };
  const progress = startProgress(asked.suite, countRuns(suite.candidates, options));
  let measured;
  try {
    const beforeRun = async (done: number, next: string) => {
      progress.update(done, next);
      await suite.beforeRun();
    };
    measured = await measure(suite.candidates, { ...options, beforeRun });
  } finally {
    progress.end();
  }
  for (const warning of disagreements(measured)) console.error(`Warning: ${warning}`);

  if (asked.json) {
    const results: Results = { suite: asked.suite, versions, rows: resultRows(measured) };
    console.log(JSON.stringify(results));
    return;
  }
  const { rounds, seconds } = asked;
  console.log(`${suite.operation}: medians of ${rounds} rounds, ${seconds} s each`);
  console.log(Object.entries(versions).map(([name, version]) => `${name} ${version}`).join(" · "));
  console.log();
  printTable(resultTable(measured));
  console.log();
  printTable(comparisonTable(measured, suite.comparisons));
}

const interruption = new AbortController();
const interrupt = () => interruption.signal.aborted ? process.exit(130) : interruption.abort();
const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
for (const signal of signals) process.on(signal, interrupt);
try {
  const asked = readArguments(process.argv.slice(2));
  if (asked === undefined) console.log(usage);
  else await run(asked, interruption.signal);
} catch (error) {
  if (interruption.signal.aborted) {
    console.error("Interrupted.");
    process.exitCode = 130;
  } else if (error instanceof UsageError) {
    console.error(`Cannot run benchmark: ${error.message}. See --help.`);
    process.exitCode = 2;
  } else {
    console.error(error instanceof FencepostError ? error.message : error);
    process.exitCode = error instanceof InvalidArgumentError ? 2 : 1;
  }
} finally {
  for (const signal of signals) process.off(signal, interrupt);
}
