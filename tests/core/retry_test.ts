import { assert, assertEquals, assertRejects, assertStrictEquals } from "@std/assert";
import { StoreError, type StoreErrorKind, TimeoutError } from "../../core/errors.ts";
import { backoffMs, maxAttempts, retry } from "../../core/retry.ts";
import { Deadline } from "../../core/runtime.ts";
import { HandRuntime, settle } from "./hand_runtime.ts";

const name = "range.reserve";

function failure(kind: StoreErrorKind): StoreError {
  return new StoreError("Cannot run range.reserve", { kind, statement: name, cause: undefined });
}

interface Attempts {
  readonly clock: HandRuntime;
  readonly heard: { name: string; kind: StoreErrorKind; attempt: number; delayMs: number }[];
  attempts(): number;
  /** Runs an operation that fails with these errors, one after the other, and then succeeds. */
  run(errors: readonly unknown[], timeoutMs?: number): Promise<string>;
}

function makeAttempts(): Attempts {
  const clock = new HandRuntime();
  const heard: Attempts["heard"] = [];
  let attempts = 0;
  return {
    clock,
    heard,
    attempts: () => attempts,
    run(errors, timeoutMs = 60_000) {
      const operation = () => {
        const error = errors[attempts++];
        return error === undefined ? Promise.resolve("done") : Promise.reject(error);
      };
      return retry(operation, {
        policy: {
          runtime: clock,
          isRetryable: (kind) => kind === "deadlock" || kind === "serialization",
          onRetry: (event) => heard.push(event),
        },
        name,
        deadline: new Deadline(clock, { timeoutMs }),
      });
    },
  };
}

Deno.test("what succeeds is done once, without a wait", async () => {
  const { clock, heard, attempts, run } = makeAttempts();
  assertEquals(await run([]), "done");
  assertEquals([attempts(), heard.length, clock.waits.length], [1, 0, 0]);
});

Deno.test("what the database rolled back is repeated until it succeeds", async () => {
  const { clock, heard, attempts, run } = makeAttempts();
  const call = run([failure("deadlock"), failure("serialization"), failure("deadlock")]);
  assertEquals(await clock.drive(call), "done");
  assertEquals(attempts(), 4);
  assertEquals(
    heard.map(({ name, kind, attempt }) => [name, kind, attempt]),
    [[name, "deadlock", 1], [name, "serialization", 2], [name, "deadlock", 3]],
  );
  assertEquals(clock.pending, 0);
});

Deno.test("it is repeated with a bound, and then its last error is given", async () => {
  const { clock, attempts, run } = makeAttempts();
  const errors = Array.from({ length: 100 }, () => failure("deadlock"));
  const error = await assertRejects(() => clock.drive(run(errors)));
  assertEquals(attempts(), maxAttempts);
  assertStrictEquals(error, errors[maxAttempts - 1]);
  assert(maxAttempts > 1 && maxAttempts < 50);
});

Deno.test("what has an unknown outcome, or cannot get better, is not repeated", async () => {
  const kinds: StoreErrorKind[] = [
    "connection",
    "diskFull",
    "duplicate",
    "missingTable",
    "other",
    "permission",
    "readOnly",
  ];
  const errors = [
    ...kinds.map(failure),
    new TimeoutError("run range.reserve", { timeoutMs: 1, outcome: "unknown" }),
    new Error("deadlock"),
    "deadlock",
    { kind: "deadlock" },
  ];
  for (const error of errors) {
    const { clock, heard, attempts, run } = makeAttempts();
    assertStrictEquals(await run([error]).catch((thrown) => thrown), error);
    assertEquals([attempts(), heard.length, clock.pending], [1, 0, 0]);
  }
});

Deno.test("what fails otherwise after a repetition is not repeated again", async () => {
  const { clock, attempts, run } = makeAttempts();
  const unknown = failure("connection");
  const call = run([failure("deadlock"), unknown, failure("deadlock")]);
  assertStrictEquals(await assertRejects(() => clock.drive(call)), unknown);
  assertEquals(attempts(), 2);
});

Deno.test("the waits grow, are random, never 0 and bounded", () => {
  const clock = new HandRuntime();
  const wait = (attempt: number, chance: number) => {
    clock.chances.push(chance);
    return backoffMs(clock, attempt);
  };
  for (let attempt = 1; attempt < maxAttempts; attempt++) {
    const [least, middle, most] = [0, 0.5, 0.999999].map((chance) => wait(attempt, chance));
    assert(least !== undefined && middle !== undefined && most !== undefined);
    assert(least >= 1 && least < middle && middle < most && most <= 251);
    if (attempt < 5) assert(wait(attempt + 1, 0.5) > middle);
  }
});

Deno.test("the wait that is announced is the one that is kept", async () => {
  const { clock, heard, attempts, run } = makeAttempts();
  clock.chances.push(0.9);
  const call = run([failure("deadlock")]);
  await settle();
  const delayMs = heard[0]?.delayMs ?? 0;
  assertEquals(clock.waits.includes(delayMs), true);
  clock.advance(delayMs - 0.01);
  await settle();
  assertEquals(attempts(), 1);
  clock.advance(0.01);
  assertEquals(await call, "done");
});

Deno.test("nothing is repeated after the deadline", async () => {
  const { clock, attempts, run } = makeAttempts();
  clock.chances.push(0.999);
  const call = run([failure("deadlock")], 3);
  await settle();
  clock.advance(3);
  const error = await assertRejects(() => call, TimeoutError);
  assertEquals(error.outcome, "nothing");
  clock.advance(1_000);
  await settle();
  assertEquals([attempts(), clock.pending], [1, 0]);
});

Deno.test("an abort ends the wait before a repetition", async () => {
  const clock = new HandRuntime();
  const abort = new AbortController();
  let attempts = 0;
  const call = retry(() => (attempts++, Promise.reject(failure("deadlock"))), {
    policy: { runtime: clock, isRetryable: () => true, onRetry: () => {} },
    name,
    deadline: new Deadline(clock, { timeoutMs: 1_000, signal: abort.signal }),
  });
  await settle();
  const reason = new Error("no longer wanted");
  abort.abort(reason);
  assertStrictEquals(await assertRejects(() => call), reason);
  assertEquals([attempts, clock.pending], [1, 0]);
});
