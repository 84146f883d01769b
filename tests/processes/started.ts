/**
 * Starts a process of these tests and takes down what it says.
 *
 * @module
 */

import { type ChildProcess, spawn } from "node:child_process";
import process from "node:process";
import { clearTimeout, setTimeout } from "node:timers";
import { fileURLToPath } from "node:url";
import { until } from "../servers/until.ts";
import { type Said, type Settings, settingsVariable } from "./said.ts";

/** How a process has ended. */
export interface Ended {
  /** Null if a signal ended it. */
  readonly code: number | null;
  readonly signal: string | null;
}

const deadlineMs = 30_000;

/** A process that takes a slot and draws ids. It does not live longer than 30 seconds. */
export class Started implements AsyncDisposable {
  /** Resolves when it has ended, and all that it said has arrived. */
  readonly ended: Promise<Ended>;
  /** What it has said so far. */
  readonly said: Said[] = [];
  readonly #child: ChildProcess;
  #log = "";
  #hasEnded = false;

  /** Starts a program of this folder. */
  constructor(program: string, settings: Settings) {
    const file = fileURLToPath(new URL(program, import.meta.url));
    const child = spawn(process.execPath, ["run", "-A", "-q", file], {
      env: { ...process.env, [settingsVariable]: JSON.stringify(settings) },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child = child;
    const killing = setTimeout(() => this.signal("SIGKILL"), deadlineMs);
    child.stderr.on("data", (piece) => this.#log += piece);
    let rest = "";
    child.stdout.setEncoding("utf8").on("data", (piece: string) => {
      const lines = `${rest}${piece}`.split("\n");
      // The last has no end yet, and never gets one if the process is killed.
      rest = lines.pop() ?? "";
      for (const line of lines) this.said.push(JSON.parse(line));
    });
    this.ended = new Promise((resolve) => {
      child.on("close", (code, signal) => {
        clearTimeout(killing);
        this.#hasEnded = true;
        resolve({ code, signal });
      });
    });
  }

  /** Every id that it has said so far, in that order. */
  get ids(): bigint[] {
    return this.said.flatMap((said) => said.type === "ids" ? said.ids.map(BigInt) : []);
  }

  /** What it has said of a type, first of all. */
  first<T extends Said["type"]>(type: T): Extract<Said, { type: T }> | undefined {
    return this.said.find((said): said is Extract<Said, { type: T }> => said.type === type);
  }

  /** Resolves when it has said something of a type, with the first of it. */
  async saying<T extends Said["type"]>(type: T): Promise<Extract<Said, { type: T }>> {
    return await this.#until(() => this.first(type), `a process to say "${type}"`);
  }

  /** Resolves when it has drawn as many ids. */
  async drawing(count: number): Promise<void> {
    await this.#until(
      () => this.ids.length >= count || undefined,
      `a process to draw ${count} ids`,
    );
  }

  async #until<T>(ask: () => T | undefined, what: string): Promise<T> {
    return await until(() => {
      const answer = ask();
      if (answer === undefined && this.#hasEnded) {
        throw new Error(`Cannot wait for ${what}: it has ended: ${this.#log.trim()}`);
      }
      return answer;
    }, { what });
  }

  /** Resolves when it has ended by itself; rejects if it failed. */
  async succeeded(): Promise<void> {
    const { code, signal } = await this.ended;
    if (code === 0) return;
    throw new Error(`Cannot go on: a process ended with ${code ?? signal}: ${this.#log.trim()}`);
  }

  /** Sends it a signal, if it has not ended. */
  signal(name: "SIGKILL" | "SIGCONT"): void {
    const { pid, exitCode, signalCode } = this.#child;
    if (pid === undefined || exitCode !== null || signalCode !== null) return;
    // Not by the child's own `kill`: in Deno it then counts as ended by that signal, also by SIGCONT.
    process.kill(pid, name);
  }

  /** Kills it, and resolves when it has ended; does nothing if it has already. */
  async kill(): Promise<Ended> {
    this.signal("SIGKILL");
    return await this.ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }
}
