import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { type Launch, launch } from "./launch.ts";

/** A server that only sleeps, and answers when it is asked. */
function sleeping(commandAt: (port: number) => readonly string[]): Launch {
  return {
    name: "launch",
    signal: "TERM",
    prepare: () => Promise.resolve(commandAt),
    urlAt: (port) => `sleeping:${port}`,
    ask: () => Promise.resolve("1.0"),
  };
}

Deno.test("a server whose port was taken is started again, on another", async () => {
  const ports: number[] = [];
  const server = await launch({
    ...sleeping((port) => {
      ports.push(port);
      const taken = "echo 'bind: Address already in use'; exit 1";
      return ports.length === 1 ? ["sh", "-c", taken] : ["sleep", "600"];
    }),
    // Whoever took it does not answer as this server would.
    ask: () => Promise.resolve(ports.length === 1 ? undefined : "1.0"),
  });
  await server.stop();
  assertEquals([server.url, ports.length], [`sleeping:${ports[1]}`, 2]);
});

Deno.test("a server that cannot start is an error with its last words", async () => {
  let attempts = 0;
  const error = await assertRejects(
    () =>
      launch({
        ...sleeping(() => {
          attempts++;
          return ["sh", "-c", "echo no disk; exit 1"];
        }),
        ask: () => Promise.reject(new Error("refused")),
      }),
    Error,
    "Cannot start launch: it ended",
  );
  assertStringIncludes(error.message, "no disk");
  assertEquals(attempts, 1);
});
