import { assert, assertEquals, assertRejects, assertStrictEquals, assertThrows } from "@std/assert";
import { TimeoutError } from "../../core/errors.ts";
import { Deadline, systemRuntime, type Timer } from "../../core/runtime.ts";
import { HandRuntime, settle } from "./hand_runtime.ts";

const name = "range.reserve";

function never<T>(): Promise<T> {
  return new Promise(() => {});
}

/** Whether a promise has settled, and how. */
function watch<T>(promise: Promise<T>): { state: "pending" | "fulfilled" | "rejected" } {
  const watched: { state: "pending" | "fulfilled" | "rejected" } = { state: "pending" };
  promise.then(() => watched.state = "fulfilled", () => watched.state = "rejected");
  return watched;
}

/** A signal that counts its listeners. */
function countedAbort(): { controller: AbortController; listeners(): number } {
  const controller = new AbortController();
  const { signal } = controller;
  const kept = new Set<unknown>();
  const add = signal.addEventListener.bind(signal);
  const remove = signal.removeEventListener.bind(signal);
  Object.defineProperties(signal, {
    addEventListener: {
      value: (type: string, listener: EventListener) => {
        kept.add(listener);
        add(type, listener);
      },
    },
    removeEventListener: {
      value: (type: string, listener: EventListener) => {
        kept.delete(listener);
        remove(type, listener);
      },
    },
  });
  return { controller, listeners: () => kept.size };
}

Deno.test("what settles in time settles the call", async () => {
  const clock = new HandRuntime();
  const deadline = new Deadline(clock, { timeoutMs: 100 });
  assertEquals(await deadline.race(name, Promise.resolve(7)), 7);
  const failure = new Error("failed");
  const error = await assertRejects(() => deadline.race(name, Promise.reject(failure)));
  assertStrictEquals(error, failure);
  assertEquals(clock.pending, 0);
});

Deno.test("what never settles ends at the deadline, not before", async () => {
  const clock = new HandRuntime();
  const call = new Deadline(clock, { timeoutMs: 100 }).race(name, never());
  const watched = watch(call);
  clock.advance(99.9);
  await settle();
  assertEquals(watched.state, "pending");
  clock.advance(1.1);
  const error = await assertRejects(() => call, TimeoutError, "range.reserve");
  assertEquals([error.outcome, error.timeoutMs, error.code], ["unknown", 100, "TIMEOUT"]);
  assertEquals(clock.pending, 0);
});

Deno.test("what settles after the deadline changes nothing", async () => {
  const clock = new HandRuntime();
  for (const late of ["resolve", "reject"] as const) {
    let settleLate = () => {};
    const promise = new Promise((resolve, reject) => {
      settleLate = () => late === "resolve" ? resolve(1) : reject(new Error("late"));
    });
    const call = new Deadline(clock, { timeoutMs: 100 }).race(name, promise);
    clock.advance(100);
    await assertRejects(() => call, TimeoutError);
    settleLate();
    await settle();
  }
});

Deno.test("an abort ends the call with the signal's reason, whatever it is", async () => {
  for (const reason of [new Error("no longer wanted"), "a text", 0, null]) {
    const clock = new HandRuntime();
    const { controller, listeners } = countedAbort();
    const deadline = new Deadline(clock, { timeoutMs: 100, signal: controller.signal });
    const call = deadline.race(name, never());
    controller.abort(reason);
    const received = await call.catch((error) => error);
    assertStrictEquals(received, reason);
    assertEquals([clock.pending, listeners()], [0, 0]);
    assert(deadline.over);
  }
});

Deno.test("a signal that was aborted before ends the call at once", async () => {
  const clock = new HandRuntime();
  const reason = new Error("no longer wanted");
  const deadline = new Deadline(clock, { timeoutMs: 100, signal: AbortSignal.abort(reason) });
  assertStrictEquals(await assertRejects(() => deadline.race(name, never())), reason);
  assertStrictEquals(await assertRejects(() => deadline.sleep(1, name)), reason);
  assertStrictEquals(assertThrows(() => deadline.check(name)), reason);
  assertEquals(deadline.remainingMs, 0);
  assertEquals(clock.pending, 0);
});

Deno.test("neither a timer nor a listener is left behind by a call that settled", async () => {
  const clock = new HandRuntime();
  const { controller, listeners } = countedAbort();
  const options = { timeoutMs: 100, signal: controller.signal };
  for (let count = 0; count < 20; count++) {
    const deadline = new Deadline(clock, options);
    const calls = [
      deadline.race(name, Promise.resolve()),
      deadline.race(name, Promise.reject(new Error("failed"))),
      deadline.sleep(5, name),
    ];
    const ended = Promise.allSettled(calls);
    await settle();
    clock.advance(5);
    await ended;
    assertEquals([clock.pending, listeners()], [0, 0]);
  }
});

Deno.test("a timer that fires early does not end the call before its time", async () => {
  const clock = new HandRuntime();
  const call = new Deadline(clock, { timeoutMs: 100 }).race(name, never());
  const watched = watch(call);
  clock.advance(98);
  for (let count = 0; count < 3; count++) {
    clock.fireEarly();
    await settle();
    assertEquals(watched.state, "pending");
    assertEquals(clock.pending, 1);
  }
  clock.advance(2);
  await assertRejects(() => call, TimeoutError);
  assertEquals(clock.pending, 0);
});

Deno.test("calls that overlap each end at their own deadline", async () => {
  const clock = new HandRuntime();
  const ended: number[] = [];
  const start = (timeoutMs: number) => {
    new Deadline(clock, { timeoutMs }).race(name, never()).catch(() => ended.push(timeoutMs));
  };
  for (const timeoutMs of [50, 10, 30, 20, 40]) start(timeoutMs);
  clock.advance(5);
  start(3);
  await settle();
  for (
    const [ms, expected] of [
      [2, []],
      [1, [3]],
      [2, [3, 10]],
      [20, [3, 10, 20, 30]],
      [19, [3, 10, 20, 30, 40]],
      [1, [3, 10, 20, 30, 40, 50]],
    ] as const
  ) {
    clock.advance(ms);
    await settle();
    assertEquals(ended, [...expected]);
  }
  assertEquals(clock.pending, 0);
});

Deno.test("a call still ends when others before it settled or were aborted", async () => {
  const clock = new HandRuntime();
  const { controller } = countedAbort();
  const aborted = new Deadline(clock, { timeoutMs: 10, signal: controller.signal })
    .race(name, never()).catch(() => "aborted");
  let finish = () => {};
  const finished = new Deadline(clock, { timeoutMs: 20 })
    .race(name, new Promise<void>((resolve) => finish = resolve));
  const last = watch(new Deadline(clock, { timeoutMs: 30 }).race(name, never()));
  controller.abort();
  finish();
  assertEquals(await aborted, "aborted");
  await finished;
  clock.advance(29);
  await settle();
  assertEquals(last.state, "pending");
  clock.advance(1);
  await settle();
  assertEquals(last.state, "rejected");
});

Deno.test("a listener is called once, and not when it was taken back", () => {
  const clock = new HandRuntime();
  const deadline = new Deadline(clock, { timeoutMs: 10 });
  const called: string[] = [];
  deadline.onOver(() => called.push("kept"));
  const takenBack = deadline.onOver(() => called.push("taken back"));
  takenBack.end();
  takenBack.end();
  deadline.onOver(() => called.push("kept too"));
  clock.advance(100);
  clock.advance(100);
  assertEquals(called, ["kept", "kept too"]);
});

Deno.test("a wait ends after its time", async () => {
  const clock = new HandRuntime();
  const deadline = new Deadline(clock, { timeoutMs: 100 });
  const sleep = deadline.sleep(40, name);
  const watched = watch(sleep);
  clock.advance(39);
  await settle();
  assertEquals(watched.state, "pending");
  clock.advance(1);
  await sleep;
  assertEquals(clock.pending, 0);
});

Deno.test("a wait never lasts beyond the deadline, and then nothing was sent", async () => {
  const clock = new HandRuntime();
  const sleep = new Deadline(clock, { timeoutMs: 100 }).sleep(1_000, name);
  clock.advance(100);
  const error = await assertRejects(() => sleep, TimeoutError);
  assertEquals(error.outcome, "nothing");
  assertEquals(clock.pending, 0);
});

Deno.test("a wait ends when its signal aborts", async () => {
  const clock = new HandRuntime();
  const { controller, listeners } = countedAbort();
  const deadline = new Deadline(clock, { timeoutMs: 100, signal: controller.signal });
  const sleep = deadline.sleep(50, name);
  const reason = new Error("no longer wanted");
  controller.abort(reason);
  assertStrictEquals(await assertRejects(() => sleep), reason);
  assertEquals([clock.pending, listeners()], [0, 0]);
});

Deno.test("the time that is left falls to 0 and no further", () => {
  const clock = new HandRuntime();
  const deadline = new Deadline(clock, { timeoutMs: 100 });
  const left = () => [deadline.remainingMs, deadline.over];
  assertEquals(left(), [100, false]);
  deadline.check(name);
  clock.advance(99);
  assertEquals(left(), [1, false]);
  clock.advance(1);
  assertEquals(left(), [0, true]);
  clock.advance(1);
  assertEquals(left(), [0, true]);
  const error = assertThrows(() => deadline.check(name), TimeoutError);
  assertEquals(error.outcome, "nothing");
});

/** A runtime whose timers can be told to keep no process alive. */
class ReferencedRuntime extends HandRuntime {
  /** The timers that are set and keep the process alive. */
  readonly referenced = new Set<Timer>();

  override setTimer(callback: () => void, ms: number): Timer {
    const { referenced } = this;
    const plain = super.setTimer(() => {
      referenced.delete(timer);
      callback();
    }, ms);
    const timer: Timer = {
      cancel() {
        referenced.delete(timer);
        plain.cancel();
      },
      unref: () => void referenced.delete(timer),
      ref: () => void referenced.add(timer),
    };
    referenced.add(timer);
    return timer;
  }
}

Deno.test("a call keeps the process alive until it settles, and no longer", async () => {
  const clock = new ReferencedRuntime();
  for (let count = 0; count < 3; count++) {
    let finish = () => {};
    const promise = new Promise<void>((resolve) => finish = resolve);
    const call = new Deadline(clock, { timeoutMs: 100 }).race(name, promise);
    assertEquals(clock.referenced.size, 1);
    finish();
    await call;
    assertEquals(clock.referenced.size, 0);
    clock.advance(40);
  }
  const call = new Deadline(clock, { timeoutMs: 100 }).race(name, never());
  assertEquals(clock.referenced.size, 1);
  clock.advance(100);
  await assertRejects(() => call, TimeoutError);
  assertEquals(clock.referenced.size, 0);
});

Deno.test("the platform's clock, timers and chance are what the default uses", async () => {
  const { wallMs, monotonicMs, random, uuid } = systemRuntime;
  assert(Math.abs(wallMs() - Date.now()) < 1_000);
  assert(monotonicMs() <= monotonicMs());
  assert(random() >= 0 && random() < 1);
  assert(/^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/.test(uuid()) && uuid() !== uuid());
  const fired: string[] = [];
  const cancelled = systemRuntime.setTimer(() => fired.push("cancelled"), 0);
  cancelled.cancel();
  await new Promise<void>((resolve) => systemRuntime.setTimer(resolve, 1));
  assertEquals(fired, []);
});

Deno.test("deadlines of two owners share no timer, those of one do", async () => {
  const clock = new HandRuntime();
  const [first, second] = [{}, {}];
  const never = () => new Promise<never>(() => {});
  const call = (owner: object) => {
    const deadline = new Deadline(clock, { timeoutMs: 10, owner });
    return deadline.race(name, never()).then(() => "ended", () => "over");
  };
  const calls = [call(first), call(first), call(second)];
  assertEquals(clock.pending, 2);
  clock.advance(10);
  assertEquals(await Promise.all(calls), ["over", "over", "over"]);
});

Deno.test("a platform whose timers are numbers gets timers that cannot be unreferenced", () => {
  const real = globalThis.setTimeout;
  try {
    Reflect.set(globalThis, "setTimeout", () => 7);
    assertEquals(Object.keys(systemRuntime.setTimer(() => {}, 1)), ["cancel"]);
  } finally {
    globalThis.setTimeout = real;
  }
});
