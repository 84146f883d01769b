/**
 * Servers that run already, each named by a variable of the environment:
 *
 * | variable         | URL                                       | name            |
 * | ---------------- | ----------------------------------------- | --------------- |
 * | `POSTGRESQL_URL` | `postgres://user:password@host/database`  | `postgresql-17` |
 * | `MYSQL_URL`      | `mysql://user:password@host/database`     | `mysql-8.4`     |
 * | `MARIADB_URL`    | `mariadb://user:password@host/database`   | `mariadb-11.8`  |
 * | `SQLSERVER_URL`  | `sqlserver://user:password@host/database` | `sqlserver`     |
 *
 * Such a server is used as it is and never stopped. The version that it reports is part of its name,
 * so it is asked for that before anything has a name. It stands for the server of the same name that
 * would be started otherwise; servers of other names are started beside it.
 *
 * @module
 */
import process from "node:process";
import type { RunningServer, TestServer } from "./server.ts";

/** A kind of server that a variable of the environment may name. */
export interface RunningKind {
  /** The variable. */
  readonly variable: string;
  /** What the names of its servers begin with. */
  readonly family: string;
  /** Asks a server for its version; rejects if it does not answer, or is of another kind. */
  ask(url: string): Promise<string>;
  /** How a server of that version is named. */
  nameOf(version: string): string;
}

/** The server that the environment names, if it names one. */
export async function runningServer(kind: RunningKind): Promise<TestServer | undefined> {
  const { variable, family, ask, nameOf } = kind;
  const url = urlOf(variable);
  if (url === undefined) return undefined;
  try {
    if (!URL.canParse(url)) throw new Error("it is no URL");
    const version = await ask(url);
    const name = nameOf(version);
    const stop = () => Promise.resolve();
    const running = { name, url, version, stop, [Symbol.asyncDispose]: stop };
    return {
      name,
      unavailable: () => Promise.resolve(undefined),
      start: () => Promise.resolve<RunningServer>(running),
    };
  } catch (error) {
    const reason = `${variable} names no server that can be used: ${reasonOf(error)}`;
    return {
      name: family,
      unavailable: () => Promise.resolve(reason),
      start: () => Promise.reject(new Error(reason)),
    };
  }
}

/** Whether a URL is that of a server that ran already. */
export function isRunning(url: string): boolean {
  return ["POSTGRESQL_URL", "MYSQL_URL", "MARIADB_URL", "SQLSERVER_URL"]
    .some((variable) => urlOf(variable) === url);
}

function urlOf(variable: string): string | undefined {
  return process.env[variable] || undefined;
}

/** In one line, and without the URL: its password would stay in logs. */
function reasonOf(error: unknown): string {
  const { code, message } = error as { code?: unknown; message?: string };
  return String(message || code || error).split("\n", 1).join();
}
