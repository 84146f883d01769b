/**
 * Servers that refuse to run as root run as somebody else.
 *
 * @module
 */
import process from "node:process";
import { run } from "./process.ts";

/** A user, by numbers. */
export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

/** Whom a server runs as that refuses root; undefined if this process is not root. */
export async function unprivilegedOwner(): Promise<Owner | undefined> {
  if (process.getuid?.() !== 0) return undefined;
  const user = await run(["id", "-u", "postgres"]).then(() => "postgres", () => "nobody");
  const [uid, gid] = await Promise.all([run(["id", "-u", user]), run(["id", "-g", user])]);
  return { uid: Number(uid), gid: Number(gid) };
}

/** What a command begins with to run as somebody else. */
export function runAs(owner: Owner | undefined): readonly string[] {
  return owner === undefined
    ? []
    : ["setpriv", `--reuid=${owner.uid}`, `--regid=${owner.gid}`, "--clear-groups"];
}
