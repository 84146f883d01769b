/**
 * Folders and ports that no one else uses.
 *
 * @module
 */
import { rmSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";

/** Makes an empty folder that only this user can enter. */
export function temporaryFolder(name: string): Promise<string> {
  return mkdtemp(join(tmpdir(), `fencepost-${name}-`));
}

/** Removes a folder with all that is in it, if it is there. */
export function removeFolder(folder: string): Promise<void> {
  return rm(folder, { recursive: true, force: true });
}

/** A loopback port that was free a moment ago; whoever binds it must be ready to try another. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => {
        if (typeof address === "object" && address !== null) resolve(address.port);
        else reject(new Error(`Cannot find a free port: received ${address}`));
      });
    });
  });
}

/** Makes a folder for a database that has no process; it is removed at the latest at exit. */
export async function holdFolder(
  name: string,
): Promise<{ folder: string; stop: () => Promise<void> }> {
  const folder = await temporaryFolder(name);
  const atExit = () => rmSync(folder, { recursive: true, force: true });
  process.on("exit", atExit);
  const stop = async () => {
    process.off("exit", atExit);
    await removeFolder(folder);
  };
  return { folder, stop };
}
