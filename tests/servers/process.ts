/**
 * Runs the process of a server so that it never outlives this one. A shell holds the server as its
 * child and reads a pipe from this process. The pipe closes when {@linkcode ServerProcess.stop} is
 * called or this process ends in whatever way, `kill -9` included; then the shell ends the server
 * by its process id and removes the folder.
 *
 * @module
 */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { clearTimeout, setTimeout } from "node:timers";
import { removeFolder } from "./temporary.ts";

/** How a server's process runs. */
export interface ServerProcessOptions {
  /** Its own folder: the working directory, the log, and all that is removed after it ended. */
  readonly folder: string;
  /**
   * The signal that ends it fastest. INT and QUIT only if the server handles them, for a shell's
   * background commands begin by ignoring both.
   */
  readonly signal: string;
}

/** The process of a server. */
export interface ServerProcess {
  /** Whether it ended by itself. */
  readonly ended: boolean;
  /** The last lines that it wrote. */
  log(): Promise<string>;
  /** Ends it and removes its folder; does nothing the second time. */
  stop(): Promise<void>;
}

const script = `
exec 3<&0
log=$1 folder=$2 signal=$3
shift 3
"$@" >>"$log" 2>&1 </dev/null 3<&- &
server=$!
( read -r _ <&3; kill -s "$signal" "$server" ) >/dev/null 2>&1 &
watcher=$!
trap "" PIPE
wait "$server"
kill "$watcher" 2>/dev/null
echo ended 2>/dev/null
read -r _ <&3
rm -rf -- "$folder"
`;

const stopDeadlineMs = 20_000;

/** Starts a server; its readiness is for the caller to find out. */
export function startProcess(
  command: readonly string[],
  { folder, signal }: ServerProcessOptions,
): ServerProcess {
  const log = join(folder, "server.log");
  // Detached, for Ctrl-C reaches all of a terminal's process group: the server has to stay until
  // whoever uses it has stopped.
  const shell = spawn("sh", ["-c", script, "sh", log, folder, signal, ...command], {
    cwd: folder,
    detached: true,
    stdio: ["pipe", "pipe", "ignore"],
  });
  let ended = false;
  let stopped: Promise<void> | undefined;
  const exited = once(shell, "exit").then(() => undefined);
  shell.stdout.on("data", () => ended = true);
  shell.stdin.on("error", () => ended = true);

  const stop = async () => {
    const killing = setTimeout(() => {
      if (shell.pid !== undefined) process.kill(-shell.pid, "SIGKILL");
    }, stopDeadlineMs);
    shell.stdin.end();
    await exited;
    clearTimeout(killing);
    await removeFolder(folder);
  };
  return {
    get ended() {
      return ended;
    },
    log: async () =>
      (await readFile(log, "utf8").catch(() => "")).split("\n").slice(-16).join("\n"),
    stop: () => stopped ??= stop(),
  };
}

/** Where a command runs, and for how many milliseconds at most: for ever unless given. */
export interface RunOptions {
  readonly cwd?: string;
  readonly timeoutMs?: number;
}

/** Runs a command to its end, and resolves with its output. */
export function run(command: readonly string[], options: RunOptions = {}): Promise<string> {
  const { cwd, timeoutMs: timeout } = options;
  const [file = "", ...args] = command;
  return new Promise((resolve, reject) => {
    execFile(file, args, { cwd, timeout, encoding: "utf8" }, (error, stdout, stderr) => {
      if (error?.killed) {
        return reject(new Error(`Cannot wait for ${command.join(" ")}: ${timeout} ms are over`));
      }
      if (error === null) return resolve(stdout);
      reject(new Error(`Cannot run ${command.join(" ")}: ${stderr.trim() || error.message}`));
    });
  });
}
