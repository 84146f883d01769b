import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { type KitProcess, startKit } from "./kit_process.ts";

const cwd = Deno.cwd();

function startProgram(program: string, cases: readonly string[], patienceMs?: number): KitProcess {
  return startKit([Deno.execPath(), "eval", program], { cwd, cases, patienceMs });
}

Deno.test("a case of the kit passes or fails as its process says", async () => {
  const kit = startProgram(
    `console.log(JSON.stringify({ name: "good" }));
     console.log(JSON.stringify({ name: "bad", failure: "the reason" }));
     console.log(JSON.stringify({ name: "new" }));`,
    ["good", "bad"],
  );
  await kit.passed("good");
  assertEquals((await assertRejects(() => kit.passed("bad"), Error)).message, "the reason");
  assertEquals(await kit.unasked, ["new"]);
});

Deno.test("a case that its process did not come to fails, with what the process said", async () => {
  const kit = startProgram(
    `console.log(JSON.stringify({ name: "first" }));
     console.error("out of memory");
     Deno.exit(7);`,
    ["first", "second"],
  );
  await kit.passed("first");
  const { message } = await assertRejects(() => kit.passed("second"), Error);
  assertStringIncludes(message, "ended before it, with 7\nout of memory");
});

Deno.test("a process of the kit that says nothing more is ended, and its cases fail", async () => {
  const kit = startProgram(`setInterval(() => {}, 1_000);`, ["never"], 500);
  const { message } = await assertRejects(() => kit.passed("never"), Error);
  assertStringIncludes(message, "ended before it, with SIGKILL");
});

Deno.test("a process of the kit that is stopped leaves no case open", async () => {
  const kit = startProgram(`setInterval(() => {}, 1_000);`, ["never"]);
  await kit.stop();
  await assertRejects(() => kit.passed("never"), Error, "ended before it");
});
