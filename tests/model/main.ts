/**
 * The model of slot leases and snowflake ids: `deno task model [options]`.
 *
 * It runs random schedules over the shipped code, in memory, and checks the rules of `rules.ts` after
 * each command. A schedule that breaks one is shrunk and printed, with how to run it again, and fails the
 * run. With `--mutants` it breaks the code instead, in copies, and fails if it finds one of them in order.
 *
 * @module
 */

import { parseArgs } from "node:util";
import { check, replayOf } from "./check.ts";
import { type Rule, rules } from "./rules.ts";
import { runMutants } from "./run_mutants.ts";

const usage = `Usage: deno task model [options]

  --runs N          how many schedules (10,000)
  --seed S          where chance comes from (another each time)
  --path P          which schedule of the seed, as a failure tells it
  --rules LIST      the rules that count, of
                    ${Object.keys(rules).join(", ")} (all)
  --no-shrink       does not look for the smallest schedule
  --mutants [WORDS] breaks the code, one contract at a time, and looks whether
                    each is found; WORDS chooses those that say so
  --help            prints this`;

class UsageError extends Error {}

interface Arguments {
  readonly runs: number;
  readonly seed: number | undefined;
  readonly path: string | undefined;
  readonly only: readonly Rule[] | undefined;
  readonly shrink: boolean;
  readonly mutants: string | undefined;
}

/** What the command line asks for; undefined if it asks for help. */
function readArguments(args: readonly string[]): Arguments | undefined {
  const { values, positionals } = parse(args);
  if (values.help) return undefined;
  const words = positionals.join(" ");
  if (words !== "" && !values.mutants) throw new UsageError(`what is "${words}"?`);
  return {
    runs: integer("--runs", values.runs),
    seed: values.seed === undefined ? undefined : integer("--seed", values.seed),
    path: values.path,
    only: values.rules?.split(",").map(ruleOf),
    shrink: !values["no-shrink"],
    mutants: values.mutants ? words : undefined,
  };
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      allowPositionals: true,
      options: {
        runs: { type: "string", default: "10000" },
        seed: { type: "string" },
        path: { type: "string" },
        rules: { type: "string" },
        "no-shrink": { type: "boolean", default: false },
        mutants: { type: "boolean", default: false },
        help: { type: "boolean", short: "h", default: false },
      },
    });
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
}

function integer(option: string, text: string): number {
  const value = /^[0-9_,]+$/.test(text) ? Number(text.replaceAll(/[_,]/g, "")) : NaN;
  if (!(value < 2 ** 31)) throw new UsageError(`${option} takes a number: received "${text}"`);
  return value;
}

function ruleOf(name: string): Rule {
  const found = Object.keys(rules).find((rule): rule is Rule => rule === name);
  if (found === undefined) throw new UsageError(`--rules has no rule "${name}"`);
  return found;
}

/** Whether no rule was broken. */
async function runModel(asked: Arguments): Promise<boolean> {
  const onProgress = (done: number) => {
    if (done < asked.runs) console.error(`${grouped(done)} of ${grouped(asked.runs)} schedules`);
  };
  const outcome = await check({ ...asked, onProgress });
  const { schedules, steps, ids, seed, failure } = outcome;
  if (failure) {
    console.log(`${failure.message}\n\n  ${failure.schedule}\n\nAgain: ${replayOf(outcome)}\n`);
  }
  console.log(
    `model: ${grouped(schedules)} schedules, ${grouped(steps)} steps, ${grouped(ids)} ids, ` +
      `${failure ? 1 : 0} violations, seed ${seed}${failure ? `, path ${failure.path}` : ""}`,
  );
  return failure === undefined;
}

function grouped(count: number): string {
  return count.toLocaleString("en-US");
}

if (import.meta.main) {
  try {
    const asked = readArguments(Deno.args);
    if (asked === undefined) console.log(usage);
    else {
      const isGood = asked.mutants === undefined
        ? await runModel(asked)
        : await runMutants(asked.mutants, { runs: asked.runs, seed: asked.seed });
      Deno.exit(isGood ? 0 : 1);
    }
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    console.error(`${error.message}\n\n${usage}`);
    Deno.exit(2);
  }
}
