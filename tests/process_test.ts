import { assertEquals } from "@std/assert";

/** Runs a program in a process of its own, and gives what it printed; ends it if it does not end. */
async function runProgram(program: string): Promise<string> {
  const entry = JSON.stringify(new URL("../mod.ts", import.meta.url).href);
  const child = new Deno.Command(Deno.execPath(), {
    args: ["eval", `import { openStore } from ${entry};\n${program}`],
    cwd: new URL("..", import.meta.url),
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const timer = setTimeout(() => child.kill("SIGKILL"), 60_000);
  const { signal, stdout } = await child.output();
  clearTimeout(timer);
  assertEquals(signal, null, "it had to be killed");
  return new TextDecoder().decode(stdout).trim();
}

Deno.test("a store that is left open keeps no process alive until its deadlines", async () => {
  const printed = await runProgram(`
    const store = await openStore("sqlite::memory:", { initSchema: true, timeoutMs: 3_600_000 });
    console.log((await store.ranges.reserve("order", 10)).end);
  `);
  assertEquals(printed, "11n");
});

Deno.test("a call that is never answered keeps the process alive until its deadline", async () => {
  const printed = await runProgram(`
    const { sqliteDialect } = await import(${
    JSON.stringify(new URL("../dialects/sqlite/mod.ts", import.meta.url).href)
  });
    const client = {
      family: "sqlite",
      server: () => new Promise(() => {}),
      query: () => new Promise(() => {}),
      session: () => ({ query: () => new Promise(() => {}) }),
      close: () => Promise.resolve(),
    };
    const opening = openStore(client, { dialects: [sqliteDialect], timeoutMs: 50 });
    console.log(await opening.catch((error) => error.code));
  `);
  assertEquals(printed, "TIMEOUT");
});
