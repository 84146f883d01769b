/**
 * PGlite, PostgreSQL inside the process of the test: an empty folder for it to open.
 *
 * @module
 */
import type { RunningServer, TestServer } from "./server.ts";
import { holdFolder } from "./temporary.ts";

/** PGlite, by its npm package. */
export const pgliteServer: TestServer = {
  name: "pglite",

  async unavailable(): Promise<string | undefined> {
    try {
      await import("@electric-sql/pglite");
    } catch (error) {
      return `@electric-sql/pglite does not load: install it from npm (${firstLine(error)})`;
    }
  },

  async start(): Promise<RunningServer> {
    const { PGlite } = await import("@electric-sql/pglite");
    const database = await PGlite.create("memory://");
    const { rows } = await database.query<{ version: string }>(
      "select current_setting('server_version') as version",
    );
    await database.close();
    const { folder, stop } = await holdFolder("pglite");
    const version = rows[0]?.version ?? "unknown";
    return { name: "pglite", url: `pglite:${folder}`, version, stop, [Symbol.asyncDispose]: stop };
  },
};

function firstLine(error: unknown): string {
  return String(error).split("\n", 1).join();
}
