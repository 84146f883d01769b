/**
 * SQLite, as the runtime brings it: a file in a temporary folder.
 *
 * @module
 */
import { join } from "node:path";
import type { RunningServer, TestServer } from "./server.ts";
import { holdFolder } from "./temporary.ts";

/** SQLite through `node:sqlite`. */
export const sqliteServer: TestServer = {
  name: "sqlite",

  async unavailable(): Promise<string | undefined> {
    try {
      await import("node:sqlite");
    } catch {
      return "this runtime has no node:sqlite: install Deno 2.2, Bun 1.4 or Node 22.5, or later";
    }
  },

  async start(): Promise<RunningServer> {
    const { DatabaseSync } = await import("node:sqlite");
    const database = new DatabaseSync(":memory:");
    const version = String(database.prepare("select sqlite_version() as version").get()?.version);
    database.close();
    const { folder, stop } = await holdFolder("sqlite");
    const url = `sqlite:${join(folder, "test.db")}`;
    return { name: "sqlite", url, version, stop, [Symbol.asyncDispose]: stop };
  },
};
