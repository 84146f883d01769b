import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { access } from "node:fs/promises";
import process from "node:process";
import { run, startProcess } from "./process.ts";
import { temporaryFolder } from "./temporary.ts";
import { until } from "./until.ts";

function isThere(path: string): Promise<boolean> {
  return access(path).then(() => true, () => false);
}

Deno.test("a stopped server leaves no folder, and can be stopped again", async () => {
  const folder = await temporaryFolder("process");
  const server = startProcess(["sleep", "600"], { folder, signal: "TERM" });
  assertEquals(server.ended, false);
  await server.stop();
  await server.stop();
  assertEquals(await isThere(folder), false);
});

Deno.test("a server that ends by itself says so, and its log can be read until it is stopped", async () => {
  const folder = await temporaryFolder("process");
  const server = startProcess(["sh", "-c", "echo why >&2; exit 1"], { folder, signal: "TERM" });
  await until(() => server.ended || undefined, { what: "the end" });
  assertStringIncludes(await server.log(), "why");
  await server.stop();
  assertEquals(await isThere(folder), false);
});

Deno.test("a server does not outlive the process that started it, even if that is killed", async () => {
  const folder = await temporaryFolder("process");
  const program = `
    import process from "node:process";
    import { startProcess } from ${JSON.stringify(new URL("process.ts", import.meta.url).href)};
    startProcess(["sleep", "600"], { folder: ${JSON.stringify(folder)}, signal: "TERM" });
    process.kill(process.pid, "SIGKILL");
  `;
  await assertRejects(() => run([process.execPath, "eval", "--no-lock", program]));
  const removed = async () => !(await isThere(folder)) || undefined;
  await until(removed, { what: "the folder to go, which the shell removes after the server" });
});

Deno.test("a command that takes too long is ended, and is an error that says so", async () => {
  assertEquals(await run(["echo", "in time"], { timeoutMs: 60_000 }), "in time\n");
  const waiting = run(["sleep", "60"], { timeoutMs: 100 });
  await assertRejects(() => waiting, Error, "Cannot wait for sleep 60: 100 ms are over");
});
