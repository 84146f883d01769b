/**
 * The compatibility kit in a process of its own, and what became of each case there. A case that the
 * process did not come to, because it ended or had nothing more to say, has failed with the reason.
 *
 * @module
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { clearTimeout, setTimeout } from "node:timers";
import type { KitResult } from "./kit.ts";

/** What is run, and where. */
export interface KitProcessOptions {
  /** Its working directory. */
  readonly cwd: string;
  /** Variables of its environment, beside those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** The cases that it is to run. */
  readonly cases: readonly string[];
  /**
   * For how many milliseconds it may say nothing, before it is ended.
   *
   * @default {60_000}
   */
  readonly patienceMs?: number;
}

/** A run of the kit. */
export interface KitProcess {
  /** Resolves if a case passed, and rejects if not. */
  passed(name: string): Promise<void>;
  /** Resolves when the process has ended, with the cases that it ran and was not asked to. */
  readonly unasked: Promise<readonly string[]>;
  /** Ends it, if it has not. */
  stop(): Promise<void>;
}

/** Starts the kit. */
export function startKit(
  command: readonly string[],
  { cwd, env = {}, cases, patienceMs = 60_000 }: KitProcessOptions,
): KitProcess {
  const failures = new Map(
    cases.map((name) => [name, Promise.withResolvers<string | undefined>()]),
  );
  const unasked: string[] = [];
  const [file = "", ...args] = command;
  const child = spawn(file, args, { cwd, env: { ...Deno.env.toObject(), ...env } });
  const timer = setTimeout(() => child.kill("SIGKILL"), patienceMs);
  let said = "";
  const listen = (text: string) => said = (said + text).slice(-4_000);
  child.stderr.setEncoding("utf8").on("data", listen);
  createInterface({ input: child.stdout }).on("line", (line) => {
    timer.refresh();
    if (!line.startsWith("{")) return listen(`${line}\n`);
    const { name, failure }: KitResult = JSON.parse(line);
    const asked = failures.get(name);
    if (asked === undefined) unasked.push(name);
    else asked.resolve(failure);
  });
  const ended = once(child, "close").catch((error) => [error]).then(([code, signal]) => {
    clearTimeout(timer);
    for (const { resolve } of failures.values()) {
      resolve(`the process ended before it, with ${signal ?? code}\n${said}`);
    }
  });
  return {
    async passed(name) {
      const failure = await failures.get(name)?.promise;
      if (failure !== undefined) throw new Error(failure);
    },
    unasked: ended.then(() => unasked),
    async stop() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}
