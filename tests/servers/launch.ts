/**
 * Starts the server of a database: in a temporary folder, on a free port of the loopback, until it
 * answers.
 *
 * @module
 */
import { startProcess } from "./process.ts";
import type { RunningServer } from "./server.ts";
import { freePort, removeFolder, temporaryFolder } from "./temporary.ts";
import { until } from "./until.ts";

/** How the server of a database is started. */
export interface Launch {
  /** The name of its {@linkcode TestServer}. */
  readonly name: string;
  /** The signal that ends it fastest; nothing of its folder is read again. */
  readonly signal: string;
  /** Makes its data in an empty folder; resolves with the command that serves them on a port. */
  prepare(folder: string): Promise<(port: number) => readonly string[]>;
  /** The URL of its database. */
  urlAt(port: number): string;
  /**
   * Its version; rejects, or resolves with undefined, while it does not answer. What answers may
   * be someone else's server, which took the port.
   */
  ask(url: string, folder: string): Promise<string | undefined>;
}

const attempts = 3;

/** Starts a server; resolves when it answers. */
export async function launch(server: Launch): Promise<RunningServer> {
  for (let attempt = 1;; attempt++) {
    try {
      return await launchOnce(server);
    } catch (error) {
      // Someone else took the port between its choice and its use.
      if (attempt === attempts || !String(error).includes("Address already in use")) throw error;
    }
  }
}

async function launchOnce({ name, signal, prepare, urlAt, ask }: Launch): Promise<RunningServer> {
  const folder = await temporaryFolder(name);
  try {
    const commandAt = await prepare(folder);
    const port = await freePort();
    const server = startProcess(commandAt(port), { folder, signal });
    const url = urlAt(port);
    let refused: unknown;
    try {
      const version = await until(() => {
        if (server.ended) throw new Error(`Cannot start ${name}: it ended`);
        return ask(url, folder).catch((error) => {
          refused = error;
          return undefined;
        });
      }, { what: `${name} to answer`, deadlineMs: 60_000 });
      const { stop } = server;
      return { name, url, version, stop, [Symbol.asyncDispose]: stop };
    } catch (error) {
      const log = await server.log();
      await server.stop();
      throw new Error([error, refused, log].filter((part) => part).map(messageOf).join("\n"), {
        cause: error,
      });
    }
  } catch (error) {
    await removeFolder(folder);
    throw error;
  }
}

function messageOf(part: unknown): string {
  return part instanceof Error ? part.message : String(part);
}
