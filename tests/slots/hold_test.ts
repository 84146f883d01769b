import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertRejects,
  assertStrictEquals,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import {
  InvalidArgumentError,
  LeaseLostError,
  StoreClosedError,
  StoreError,
  TimeoutError,
} from "../../core/errors.ts";
import type { HoldOptions } from "../../core/slot/slot_arguments.ts";
import type { SlotHold } from "../../core/slot/slot_hold.ts";
import { type Bindable, Identifier, sql, Statement } from "../../core/sql/statement.ts";
import { openStoreOver, type Store } from "../../core/store.ts";
import { NodeSqliteClient, sqliteDialect } from "../../dialects/sqlite/mod.ts";
import { StagedError } from "../tck/clients.ts";
import { HostRuntime, SlotWorld } from "../tck/slot/world.ts";

const startMs = 1_800_000_000_000;

/** A machine, and a database in memory whose clock the test moves as well. */
class World extends SlotWorld implements AsyncDisposable {
  readonly database: DatabaseSync;
  /** How far the store clock is ahead of the real time. */
  storeAheadMs = 0;

  /** @param of The world whose database and time it shares. */
  constructor(of?: World) {
    const runtime = of?.runtime ?? new HostRuntime(startMs);
    const database = of?.database ?? new DatabaseSync(":memory:");
    const dialect = Object.create(sqliteDialect, { nowMillis: { value: sql`store_now()` } });
    super({
      runtime,
      client: new NodeSqliteClient(database, { opened: false }),
      dialect,
      open: ({ client, ...options }) =>
        openStoreOver(client, { builtIn: [dialect], initSchema: true, ...options }),
    });
    this.database = database;
    const now = () => BigInt(Math.floor(runtime.realMs + this.storeAheadMs));
    if (of === undefined) database.function("store_now", now);
  }

  /** The columns of a slot. */
  row(slot = 0, namespace = "workers"): Record<string, unknown> {
    const row = this.database.prepare(
      "select * from cosid_slot where namespace = ? and slot = ?",
    ).get(namespace, slot);
    return { ...row };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
    if (this.database.isOpen) this.database.close();
  }
}

/** Renewed every 10 s, trusted for 27 s, a renewal may take 5 s. */
const terms: HoldOptions = { namespace: "workers", limit: 1 };
const everyMs = 10_000;
const trustMs = 27_000;

/** Makes the namespace, and leaves its slots free and unused. */
async function provision({ slots }: Store): Promise<void> {
  const hold = await slots.hold(terms);
  await hold.release({ lastUsedMs: hold.lease.floorMs - 1 });
}

/** The values that a statement binds. */
function bound(statement: Statement | undefined): Bindable[] {
  return (statement?.parts ?? []).flatMap((part) =>
    part instanceof Statement ? bound(part) : part instanceof Identifier ? [] : [part]
  );
}

/** Fails unless the lease is lost, everywhere and for that reason. */
async function assertLost(hold: SlotHold, reason: string): Promise<void> {
  assertEquals(hold.held, false);
  assert(hold.signal.aborted, "the signal has not aborted");
  assertInstanceOf(hold.signal.reason, LeaseLostError);
  const { namespace, slot, fence } = hold.lease;
  const lost = hold.signal.reason;
  assertEquals([lost.namespace, lost.slot, lost.fence], [namespace, slot, fence]);
  assertEquals(lost.reason, reason);
  const error = await assertRejects(() => hold.renew(), LeaseLostError, "Cannot renew lease");
  assertEquals(error.reason, reason);
}

Deno.test("a lease is renewed every renewEveryMs, which is a third of its ttl", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  await world.pass(everyMs - 1);
  assertEquals(world.count("slot.renew"), 0);
  for (let count = 1; count <= 30; count++) {
    await world.pass(count === 1 ? 1 : everyMs);
    assertEquals([world.count("slot.renew"), hold.held], [count, true]);
  }
  const other = await (await world.open()).slots.hold({
    ...terms,
    namespace: "often",
    renewEveryMs: 700,
  });
  const before = world.count("slot.renew");
  await world.pass(7_000);
  assertEquals(world.count("slot.renew") - before, 10);
  assert(other.held);
});

Deno.test("the next renewal is due renewEveryMs after the last was sent, not answered", async () => {
  await using world = new World();
  await (await world.open()).slots.hold(terms);
  world.answer(async ({ send }) => {
    await world.wait(4_000);
    return await send();
  }, "slot.renew");
  await world.pass(5 * everyMs);
  assertEquals(world.count("slot.renew"), 5);
});

Deno.test("the timer of a hold keeps no process alive", async () => {
  await using world = new World();
  await (await world.open()).slots.hold(terms);
  for (let count = 0; count < 5; count++) {
    assert(world.runtime.timers > 0, "no renewal is due");
    assertEquals(world.runtime.referenced, 0);
    await world.pass(everyMs);
  }
});

Deno.test("where timers cannot be unreferenced a lease is renewed all the same", async () => {
  await using world = new World();
  world.runtime.canUnref = false;
  const hold = await (await world.open()).slots.hold(terms);
  await world.pass(100_000);
  assertEquals([world.count("slot.renew"), hold.held], [10, true]);
});

for (const slow of ["request", "answer"] as const) {
  Deno.test(`a lease is trusted from when its acquire was sent: slow ${slow}`, async () => {
    await using world = new World();
    const store = await world.open();
    await provision(store);
    world.answer(async ({ send }) => {
      if (slow === "request") await world.wait(3_000);
      const result = await send();
      if (slow === "answer") await world.wait(3_000);
      return result;
    }, "slot.acquire");
    const opening = store.slots.hold({ ...terms, background: false });
    await world.pass(3_000);
    const hold = await opening;
    world.runtime.block(trustMs - 3_000 - 1);
    assert(hold.held);
    world.runtime.block(1);
    await assertLost(hold, "expired");
  });

  Deno.test(`a lease is trusted from when its renewal was sent: slow ${slow}`, async () => {
    await using world = new World();
    const hold = await (await world.open()).slots.hold({ ...terms, background: false });
    world.runtime.block(20_000);
    world.answer(async ({ send }) => {
      if (slow === "request") await world.wait(4_000);
      const result = await send();
      if (slow === "answer") await world.wait(4_000);
      return result;
    }, "slot.renew");
    const renewing = hold.renew();
    await world.pass(4_000);
    await renewing;
    world.runtime.block(trustMs - 4_000 - 1);
    assert(hold.held);
    world.runtime.block(1);
    await assertLost(hold, "expired");
  });
}

Deno.test("a lease learnt from a read is trusted for what the read says is left of it", async () => {
  for (const storeJumpMs of [0, 5_000]) {
    await using world = new World();
    const store = await world.open();
    await provision(store);
    world.answer(async ({ name, send }) => {
      const result = await send();
      if (name === "slot.acquire") {
        await world.wait(2_000);
        world.storeAheadMs += storeJumpMs;
        throw new StagedError();
      }
      if (name === "slot.candidates" && world.runtime.realMs > startMs) await world.wait(1_000);
      return result;
    });
    const opening = store.slots.hold({ ...terms, background: false });
    await world.pass(3_000);
    const hold = await opening;
    assertEquals([hold.lease.fence, world.count("slot.acquire")], [2, 2]);
    // Read 2 s after it was written, answered 1 s later.
    world.runtime.block(trustMs - 3_000 - storeJumpMs - 1);
    assert(hold.held);
    world.runtime.block(1);
    await assertLost(hold, "expired");
  }
});

Deno.test("a lease learnt from a read is renewed at once", async () => {
  await using world = new World();
  const { slots } = await world.open();
  world.answer(async ({ send }) => {
    await send();
    throw new StagedError();
  }, "slot.acquire");
  const hold = await slots.hold(terms);
  assertEquals(world.count("slot.renew"), 0);
  await world.pass(1);
  assertEquals(world.count("slot.renew"), 1);
  await world.pass(everyMs);
  assertEquals([world.count("slot.renew"), hold.held], [2, true]);
});

Deno.test("a hold whose acquire was answered too late is lost from the start", async () => {
  await using world = new World();
  const { slots } = await world.open();
  world.answer(async ({ send }) => {
    const result = await send();
    world.runtime.block(trustMs);
    return result;
  }, "slot.acquire");
  const hold = await slots.hold({ ...terms, timeoutMs: 60_000 });
  await assertLost(hold, "expired");
});

Deno.test("an event loop that was blocked past the trust deceives nobody", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  world.runtime.block(trustMs);
  assert(!hold.signal.aborted, "a timer has fired");
  assertEquals(hold.held, false);
  await assertLost(hold, "expired");
  assertEquals(world.told("lost"), [
    { type: "lost", namespace: "workers", slot: 0, fence: 1, reason: "expired" },
  ]);
  assertEquals(world.count("slot.renew"), 0);
});

Deno.test("a signal aborts when the trust runs out, though nobody asks", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  world.cut();
  await world.pass(trustMs - 1);
  assert(!hold.signal.aborted);
  await world.pass(1);
  assert(hold.signal.aborted);
  await assertLost(hold, "expired");
});

Deno.test("an event loop that was blocked for less than the trust survives", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  world.runtime.block(trustMs - 1);
  assert(hold.held);
  await world.pass(0);
  assertEquals([world.count("slot.renew"), hold.held], [1, true]);
  world.runtime.block(trustMs - 1);
  assert(hold.held);
});

Deno.test("a machine that slept holds nothing until a renewal has succeeded", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  world.runtime.sleep(trustMs);
  for (let count = 0; count < 10; count++) assertEquals(hold.held, false);
  await world.settle();
  assertEquals([world.count("slot.renew"), hold.held], [1, true]);
  assert(!hold.signal.aborted);
  world.runtime.sleep(10 * trustMs);
  world.cut();
  assertEquals(hold.held, false);
  await world.pass(5_000);
  assertEquals(hold.held, false);
  assert(world.count("slot.renew") > 2, "a renewal that failed is repeated");
  world.mend();
  await world.pass(1_000);
  assert(hold.held && !hold.signal.aborted);
});

Deno.test("a machine that slept for less than the trust holds its lease", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  world.runtime.sleep(trustMs - 1);
  assert(hold.held);
  assertEquals(world.count("slot.renew"), 0);
});

Deno.test("a machine that slept while another took the slot has lost it", async () => {
  await using world = new World();
  await using others = new World(world);
  const hold = await (await world.open()).slots.hold(terms);
  world.runtime.sleep(31_000);
  const other = await (await others.open()).slots.hold(terms);
  assertEquals(hold.held, false);
  await world.settle();
  await assertLost(hold, "replaced");
  assertEquals([other.held, other.lease.fence], [true, 2]);
  assertEquals(world.told("lost"), [
    { type: "lost", namespace: "workers", slot: 0, fence: 1, reason: "replaced" },
  ]);
});

Deno.test("a machine that slept waits for its caller to renew where nothing runs by itself", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold({ ...terms, background: false });
  world.runtime.sleep(trustMs);
  assertEquals(hold.held, false);
  await world.settle();
  assertEquals([world.count("slot.renew"), hold.held], [0, false]);
  await hold.renew();
  assert(hold.held);
});

Deno.test("a host clock that is set back or forward loses no lease", async () => {
  for (const byMs of [3_600_000, -3_600_000]) {
    await using world = new World();
    const hold = await (await world.open()).slots.hold(terms);
    for (let count = 0; count < 5; count++) {
      world.runtime.setWall(byMs);
      // Set forward it looks like sleep: it counts once it was renewed.
      assertEquals(hold.held, byMs < 0);
      await world.settle();
      assert(hold.held);
      await world.pass(15_000);
      assert(hold.held);
    }
    world.cut();
    await world.pass(trustMs);
    await assertLost(hold, "expired");
  }
});

Deno.test("a failed renewal is repeated until the trust has run out, and then no more", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  world.cut();
  await world.pass(trustMs - 1);
  assert(hold.held);
  const failures = world.told("renewFailed");
  assert(failures.length >= 10, `${failures.length} attempts`);
  assert(failures.length <= 1_000, `${failures.length} attempts`);
  const left = failures.map(({ trustedForMs }) => trustedForMs);
  assertEquals(left, left.toSorted((a, b) => b - a));
  assertEquals(left[0], trustMs - everyMs);
  await world.pass(1);
  await assertLost(hold, "expired");
  world.mend();
  world.client.sent.length = 0;
  await world.pass(3_600_000);
  assertEquals(world.client.names, []);
  assertEquals(world.told("lost").length, 1);
});

Deno.test("a hold that has lost its lease never acquires again, though the slot is free", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  world.runtime.block(trustMs);
  await world.pass(3_600_000);
  assertEquals(world.count("slot.acquire"), 1);
  await assertLost(hold, "expired");
  assertEquals(world.row().fence, 1);
});

Deno.test("a renewal whose answer is lost is repeated, and the lease survives", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  let lost = 0;
  world.answer(async ({ send }) => {
    const result = await send();
    if (lost++ % 3 < 2) throw new StagedError();
    return result;
  }, "slot.renew");
  await world.pass(200_000);
  assert(hold.held);
  assertEquals([world.row().fence, world.told("lost").length], [1, 0]);
  assert(world.told("renewFailed").length >= 20);
});

Deno.test("a database that is away for less than the trust costs no lease", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  for (let count = 0; count < 5; count++) {
    world.cut();
    // The last renewal was sent at most renewEveryMs ago.
    await world.pass(trustMs - everyMs - 1_000);
    assert(hold.held);
    world.mend();
    await world.pass(everyMs);
    assert(hold.held);
  }
});

Deno.test("while a database does not answer a second attempt fits before the lease is lost", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  world.answer(() => new Promise(() => {}), "slot.renew");
  await world.pass(trustMs - 1);
  assert(hold.held);
  assert(world.count("slot.renew") >= 2, `${world.count("slot.renew")} attempts`);
  for (const { error } of world.told("renewFailed")) {
    assertInstanceOf(error, TimeoutError);
    assertEquals([error.timeoutMs, error.outcome], [5_000, "unknown"]);
  }
  await world.pass(1);
  assert(hold.signal.aborted, "an attempt that hangs holds up the loss");
  await assertLost(hold, "expired");
});

Deno.test("the second attempt in time keeps the lease, with the longest interval", async () => {
  await using world = new World();
  const renewEveryMs = trustMs / 2 - 1;
  const hold = await (await world.open()).slots.hold({
    ...terms,
    renewEveryMs,
    renewTimeoutMs: renewEveryMs - 1,
  });
  world.answer(() => new Promise(() => {}), "slot.renew");
  await world.pass(renewEveryMs);
  world.mend();
  await world.pass(renewEveryMs - 1);
  await world.pass(100);
  assertEquals([world.count("slot.renew"), hold.held], [2, true]);
});

Deno.test("a renewal that answers late stretches nothing", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  world.answer(async ({ send }) => {
    const result = await send();
    await world.wait(4_000);
    return result;
  }, "slot.renew");
  await world.pass(everyMs + 4_000);
  assertEquals(world.told("renew").length, 1);
  world.cut();
  await world.pass(trustMs - 4_000 - 1);
  assert(hold.held);
  await world.pass(1);
  await assertLost(hold, "expired");
});

Deno.test("a renewal that succeeds after the trust has run out gives nothing back", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold({ ...terms, background: false });
  world.runtime.block(trustMs - 500);
  world.answer(async ({ send }) => {
    const result = await send();
    world.runtime.block(500);
    return result;
  }, "slot.renew");
  const error = await assertRejects(() => hold.renew(), LeaseLostError);
  assertEquals(error.reason, "expired");
  await assertLost(hold, "expired");
});

Deno.test("a renewal that changed nothing confirms what the row says, and is repeated soon", async () => {
  for (const background of [true, false]) {
    await using world = new World();
    const hold = await (await world.open()).slots.hold({ ...terms, background });
    let lost = 0;
    world.answer(({ statement, send }) => {
      const isUpdate = statement !== undefined;
      return isUpdate && lost++ === 0 ? Promise.resolve(undefined) : send();
    }, "slot.renew");
    await world.pass(everyMs);
    if (background) {
      await world.pass(100);
      assertEquals([world.told("renew").length, hold.held], [1, true]);
      continue;
    }
    await hold.renew();
    assertEquals([world.told("renew").length, lost], [0, 1]);
    world.runtime.block(trustMs - everyMs - 1);
    assert(hold.held);
    world.runtime.block(1);
    await assertLost(hold, "expired");
  }
});

Deno.test("renew sends nothing once the lease is lost", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold({ ...terms, background: false });
  world.runtime.block(trustMs);
  world.client.sent.length = 0;
  await assertRejects(() => hold.renew(), LeaseLostError);
  assertEquals(world.client.names, []);
});

Deno.test("a server that has become read-only takes the lease away", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  world.answer(() => Promise.reject(new StagedError("readOnly")), "slot.renew");
  await world.pass(everyMs);
  await assertLost(hold, "readOnly");
  assertEquals(world.told("lost").map(({ reason }) => reason), ["readOnly"]);
  await world.pass(60_000);
  assertEquals(world.count("slot.renew"), 1);
});

Deno.test("every hold is renewed, in every namespace and of every store", async () => {
  await using world = new World();
  const stores = [await world.open(), await world.open()];
  const holds: SlotHold[] = [];
  for (const { slots } of stores) {
    for (const namespace of ["a", "b", "c"]) {
      for (let count = 0; count < 2; count++) holds.push(await slots.hold({ namespace, limit: 4 }));
    }
  }
  assertEquals(new Set(holds.map(({ lease }) => `${lease.namespace} ${lease.slot}`)).size, 12);
  await world.pass(10 * everyMs);
  for (const { held, lease } of holds) {
    assert(held);
    const renewals = world.told("renew").filter(({ namespace, slot }) =>
      namespace === lease.namespace && slot === lease.slot
    );
    assertEquals(renewals.length, 10);
  }
});

Deno.test("without a background there is no timer, and no renewal but by hand", async () => {
  await using world = new World();
  world.runtime.canUnref = false;
  const hold = await (await world.open()).slots.hold({ ...terms, background: false });
  assertEquals(world.runtime.timers, 0);
  for (let count = 1; count <= 5; count++) {
    await world.pass(trustMs - 1);
    assertEquals(world.count("slot.renew"), count - 1);
    assert(hold.held);
    await hold.renew();
    assertEquals([world.count("slot.renew"), world.runtime.timers], [count, 0]);
  }
  await world.pass(trustMs);
  await assertLost(hold, "expired");
});

Deno.test("a renewal by hand puts off the next one", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  await world.pass(everyMs - 1);
  await hold.renew();
  await world.pass(everyMs - 1);
  assertEquals(world.count("slot.renew"), 1);
  await world.pass(1);
  assertEquals(world.count("slot.renew"), 2);
});

Deno.test("renew joins the renewal that is under way, within a deadline of its own", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  world.answer(async ({ send }) => {
    await world.wait(3_000);
    return await send();
  }, "slot.renew");
  await world.pass(everyMs);
  const calls = [hold.renew(), hold.renew({ timeoutMs: 4_000 })];
  const impatient = assertRejects(() => hold.renew({ timeoutMs: 100 }), TimeoutError);
  const reason = new Error("enough");
  const controller = new AbortController();
  const aborted = hold.renew({ signal: controller.signal }).catch((error) => error);
  await world.pass(100);
  controller.abort(reason);
  assertEquals((await impatient).timeoutMs, 100);
  assertStrictEquals(await aborted, reason);
  await world.pass(2_900);
  await Promise.all(calls);
  assertEquals([world.count("slot.renew"), world.told("renewFailed").length], [1, 0]);
});

Deno.test("who joins a renewal does not fail because of who began it", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  world.answer(async ({ send }) => {
    await world.wait(3_000);
    return await send();
  }, "slot.renew");
  const controller = new AbortController();
  const reason = new Error("enough");
  const began = hold.renew({ signal: controller.signal }).catch((error) => error);
  const joined = hold.renew();
  controller.abort(reason);
  assertStrictEquals(await began, reason);
  await world.pass(3_000);
  await joined;
  const impatient = assertRejects(() => hold.renew({ timeoutMs: 100 }), TimeoutError);
  const patient = hold.renew();
  await world.pass(3_000);
  await Promise.all([impatient, patient]);
  assertEquals([world.count("slot.renew"), world.told("renewFailed").length], [2, 0]);
});

Deno.test("a timeout that is undefined is none that was given", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold({ ...terms, renewTimeoutMs: 2_000 });
  world.answer(() => new Promise(() => {}), "slot.renew");
  const calls = [undefined, undefined].map((timeoutMs) =>
    assertRejects(() => hold.renew({ timeoutMs }), TimeoutError)
  );
  await world.pass(2_000);
  for (const { timeoutMs } of await Promise.all(calls)) assertEquals(timeoutMs, 2_000);
});

Deno.test("bad options of renew and release are refused, and nothing is sent", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  world.client.sent.length = 0;
  const bad: readonly unknown[] = [null, 5, { timeoutMs: 0 }, { signal: {} }, { timeout: 5 }];
  for (const options of bad) {
    await assertRejects(() => hold.renew(options as { timeoutMs: number }), InvalidArgumentError);
    await assertRejects(() => hold.release(options as { timeoutMs: number }), InvalidArgumentError);
  }
  const { floorMs, ceilingMs } = hold.lease;
  for (const lastUsedMs of [floorMs - 2, ceilingMs + 1, 1.5, NaN, "5"]) {
    const error = await assertRejects(
      () => hold.release({ lastUsedMs: lastUsedMs as number }),
      InvalidArgumentError,
    );
    assertStringIncludes(error.message, "lastUsedMs");
  }
  assertEquals(world.client.names, []);
  assert(hold.held);
});

Deno.test("a release closes the generator and the hold before it sends", async () => {
  await using world = new World();
  const store = await world.open();
  const hold = await store.slots.hold(terms);
  const ids = await store.snowflakeIds({ hold });
  await ids.next();
  let checked = 0;
  world.answer(({ send }) => {
    checked++;
    assertEquals([hold.held, hold.signal.aborted], [false, true]);
    assertThrows(() => ids.tryNext(), LeaseLostError);
    return send();
  }, "slot.release");
  await hold.release();
  assertEquals(checked, 1);
  await assertLost(hold, "released");
});

Deno.test("a release closes the generator also if it is never sent", async () => {
  await using world = new World();
  const store = await world.open();
  const hold = await store.slots.hold(terms);
  const ids = await store.snowflakeIds({ hold });
  await ids.next();
  world.cut();
  await assertRejects(() => hold.release(), StoreError);
  world.mend();
  assertThrows(() => ids.tryNext(), LeaseLostError);
  await assertRejects(() => store.snowflakeIds({ hold }).then((more) => more.next()));
});

Deno.test("the repeat of a failed release says the same last use", async () => {
  await using world = new World();
  const store = await world.open();
  const hold = await store.slots.hold(terms);
  const ids = await store.snowflakeIds({ hold });
  const { timestampMs } = ids.parse(await ids.next());
  let failures = 2;
  world.answer(async ({ send }) => {
    if (failures === 2) await send();
    if (failures-- > 0) throw new StagedError();
    return await send();
  }, "slot.release");
  await assertRejects(() => hold.release(), StoreError);
  world.runtime.block(20_000);
  await assertRejects(() => hold.release({ lastUsedMs: hold.lease.ceilingMs }), StoreError);
  await hold.release();
  const releases = world.client.sent.filter(({ name, statement }) =>
    name === "slot.release" && bound(statement).includes(timestampMs + 1)
  );
  assertEquals(releases.length, 3);
  assertEquals(world.row().next_floor_ms, timestampMs + 1);
  assertEquals(world.row().owner_key, null);
});

Deno.test("a release that succeeded is not sent again, and one under way is joined", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  await Promise.all([hold.release(), hold.release()]);
  await hold.release();
  await hold[Symbol.asyncDispose]();
  assertEquals([world.count("slot.release"), world.told("released").length], [1, 1]);
  assertEquals(world.told("lost"), []);
});

Deno.test("no renewal is sent after a release, and one under way changes nothing", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  world.answer(async ({ send }) => {
    await world.wait(1_000);
    return await send();
  }, "slot.renew");
  await world.pass(everyMs);
  await hold.release();
  await world.pass(1_000);
  world.client.sent.length = 0;
  await world.pass(100_000);
  assertEquals([world.client.names, world.row().owner_key], [[], null]);
  assertEquals(world.told("lost"), []);
  await assertLost(hold, "released");
});

Deno.test("a hold that stamps nothing gives its whole window back", async () => {
  await using world = new World();
  const { slots } = await world.open();
  for (let count = 1; count <= 20; count++) {
    const hold = await slots.hold({ ...terms, stamps: false });
    await world.pass(count % 3 * everyMs);
    assertEquals([hold.lease.fence, hold.lease.floorMs], [count, 0]);
    await hold.release();
    assertEquals(world.row().next_floor_ms, 0);
  }
  const hold = await slots.hold({ ...terms, stamps: false });
  await hold.release({ lastUsedMs: startMs });
  assertEquals(world.row().next_floor_ms, startMs + 1);
});

Deno.test("a hold that may have stamped and does not say what keeps its whole window", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  await world.pass(everyMs);
  const { ceilingMs } = hold.lease;
  assertEquals(ceilingMs, startMs + everyMs + 32_000);
  await hold.release();
  assertEquals(world.row().next_floor_ms, ceilingMs + 1);
});

Deno.test("no ids can be made of a hold that stamps nothing", async () => {
  await using world = new World();
  const store = await world.open();
  const hold = await store.slots.hold({ ...terms, stamps: false });
  await assertRejects(
    () => store.snowflakeIds({ hold }),
    InvalidArgumentError,
    "stamps: false",
  );
  const options = { namespace: "events", stamps: false };
  await assertRejects(() => store.snowflakeIds(options), InvalidArgumentError, '"stamps"');
  await hold.release();
  assertEquals(world.row().next_floor_ms, 0);
});

Deno.test("a hold whose trust ran out frees its row if that is still its own", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  world.runtime.block(trustMs);
  await assertLost(hold, "expired");
  await hold.release();
  assertEquals([world.row().owner_key, world.told("released").length], [null, 1]);
  await assertLost(hold, "expired");
});

Deno.test("a release after another took the slot changes nothing", async () => {
  await using world = new World();
  await using others = new World(world);
  const hold = await (await world.open()).slots.hold(terms);
  world.runtime.block(31_000);
  const other = await (await others.open()).slots.hold(terms);
  await assertLost(hold, "expired");
  await hold.release();
  assertEquals([other.held, world.row().owner_key], [true, other.lease.ownerKey]);
  assertEquals(world.told("released"), []);
  await other.renew();
});

Deno.test("a hold that was replaced has nothing to release", async () => {
  await using world = new World();
  await using others = new World(world);
  const hold = await (await world.open()).slots.hold({ ...terms, background: false });
  world.runtime.sleep(31_000);
  await (await others.open()).slots.hold(terms);
  await assertRejects(() => hold.renew(), LeaseLostError);
  await hold.release();
  assertEquals(world.count("slot.release"), 0);
});

Deno.test("two may believe that they hold a slot, and their windows do not overlap", async () => {
  await using world = new World();
  await using others = new World(world);
  const hold = await (await world.open()).slots.hold(terms);
  world.storeAheadMs = 31_000;
  const other = await (await others.open()).slots.hold(terms);
  assertEquals([hold.held, other.held], [true, true]);
  assert(other.lease.floorMs > hold.lease.ceilingMs);
  assert(other.lease.fence > hold.lease.fence);
  await world.pass(everyMs);
  await assertLost(hold, "replaced");
  assert(other.held);
});

Deno.test("the end of a scope does not throw when the database is away, and tells why", async () => {
  await using world = new World();
  const store = await world.open();
  {
    await using hold = await store.slots.hold(terms);
    assert(hold.held);
    world.cut();
  }
  const [{ error, ...event } = {}, ...more] = world.told("releaseFailed");
  assertEquals(event, { type: "releaseFailed", namespace: "workers", slot: 0, fence: 1 });
  assertInstanceOf(error, StoreError);
  assertEquals([error.kind, more.length], ["connection", 0]);
});

Deno.test("a store that closes releases its live holds, and then refuses", async () => {
  await using world = new World();
  const store = await world.open();
  const kept = await store.slots.hold({ namespace: "workers", limit: 4, preferredSlot: 0 });
  const lost = await store.slots.hold({
    namespace: "workers",
    limit: 4,
    preferredSlot: 1,
    background: false,
    ttlMs: 5_000,
  });
  await (await store.slots.hold({ namespace: "workers", limit: 4, preferredSlot: 2 })).release();
  const other = await store.slots.hold({ namespace: "others", limit: 1 });
  await world.pass(5_000);
  await assertLost(lost, "expired");
  world.client.sent.length = 0;
  await store.close();
  assertEquals(world.count("slot.release"), 2);
  await assertLost(kept, "released");
  await assertLost(other, "released");
  assertEquals([world.row().owner_key, world.row(0, "others").owner_key], [null, null]);
  await store.close();
  await assertRejects(() => store.slots.hold(terms), StoreClosedError);
  await assertRejects(() => store.slots.acquire(terms), StoreClosedError);
  await assertRejects(() => store.slots.renew(kept.lease), StoreClosedError);
  await assertRejects(() => store.slots.release(kept.lease), StoreClosedError);
  await assertRejects(() => store.slots.inspect("workers"), StoreClosedError);
  await assertRejects(() => store.snowflakeIds({ namespace: "ids" }), StoreClosedError);
  await world.pass(100_000);
  assertEquals(world.count("slot.renew"), 0);
});

Deno.test("a store whose database does not answer closes when its releases have timed out", async () => {
  await using world = new World();
  const store = await world.open({ timeoutMs: 2_000 });
  for (const namespace of ["a", "b"]) await store.slots.hold({ namespace, limit: 1 });
  world.answer(() => new Promise(() => {}), "slot.release");
  let closed = false;
  const closing = store.close().then(() => closed = true);
  await world.pass(1_999);
  assert(!closed);
  await world.pass(1);
  await closing;
  for (const { error } of world.told("releaseFailed")) assertInstanceOf(error, TimeoutError);
  assertEquals(world.told("releaseFailed").length, 2);
});

Deno.test("a hold that is acquired while the store closes is not left behind", async () => {
  await using world = new World();
  const store = await world.open();
  await provision(store);
  world.answer(async ({ send }) => {
    const result = await send();
    await world.wait(1_000);
    return result;
  }, "slot.acquire");
  const opening = store.slots.hold(terms).then(() => "held", (error) => error);
  await world.pass(500);
  const closing = store.close();
  await world.pass(1_000);
  await closing;
  assertInstanceOf(await opening, StoreClosedError);
  assertEquals(world.row().owner_key, null);
});

Deno.test("an acquire, a renewal and a release are told, with the lease and how long they took", async () => {
  await using world = new World();
  const store = await world.open();
  await provision(store);
  world.events.length = 0;
  world.answer(async ({ name, send }) => {
    if (name === "slot.acquire") await world.wait(30);
    if (name === "slot.renew") await world.wait(70);
    return await send();
  });
  const opening = store.slots.hold(terms);
  await world.pass(30);
  const hold = await opening;
  await world.pass(everyMs + 70);
  await hold.release();
  const lease = { namespace: "workers", slot: 0, fence: 2 };
  assertEquals(world.events, [
    { type: "acquire", ...lease, durationMs: 30 },
    { type: "renew", ...lease, durationMs: 70 },
    { type: "released", ...lease },
  ]);
});

Deno.test("a renewal that failed is told, with why and for how long the lease is trusted", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold({ ...terms, background: false });
  world.cut();
  world.runtime.block(20_000);
  const thrown = await assertRejects(() => hold.renew(), StoreError);
  const [{ error, ...event } = {}] = world.told("renewFailed");
  assertStrictEquals(error, thrown);
  assertEquals(event, {
    type: "renewFailed",
    namespace: "workers",
    slot: 0,
    fence: 1,
    trustedForMs: 7_000,
  });
});

Deno.test("a store clock that moved by more than the tolerance is told, one that did not is not", async () => {
  const moves = [[2_000, undefined], [-2_000, undefined], [2_002, 2_001], [
    -2_002,
    -2_001,
  ]] as const;
  for (const [moveMs, byMs] of [...moves, [60_000, 59_999], [-60_000, -59_999]] as const) {
    await using world = new World();
    const hold = await (await world.open()).slots.hold(terms);
    await world.pass(5_000);
    world.storeAheadMs = moveMs;
    await hold.renew();
    const expected = byMs && { type: "clockMoved" as const, namespace: "workers", byMs };
    assertEquals(world.told("clockMoved"), expected ? [expected] : []);
    await world.pass(10 * everyMs);
    assertEquals(world.told("clockMoved").length, expected ? 1 : 0);
    assert(hold.held);
  }
});

Deno.test("a machine that slept hears that the store clock moved", async () => {
  await using world = new World();
  const hold = await (await world.open()).slots.hold(terms);
  world.runtime.sleep(20_000);
  await hold.renew();
  assertEquals(world.told("clockMoved").map(({ byMs }) => byMs), [19_999]);
});

Deno.test("an observer that throws changes nothing", async () => {
  await using world = new World();
  await using others = new World(world);
  const types = new Set<string>();
  const store = await world.open({
    onEvent({ type }) {
      types.add(type);
      throw new Error("the observer failed");
    },
  });
  const hold = await store.slots.hold(terms);
  await world.pass(everyMs);
  assert(hold.held);
  world.cut();
  await world.pass(everyMs + 1_000);
  world.mend();
  await world.pass(1_000);
  assert(hold.held);
  world.storeAheadMs = 60_000;
  await hold.renew();
  world.answer(() => Promise.reject(new StagedError()), "slot.release");
  await assertRejects(() => hold.release(), StoreError);
  world.mend();
  await hold.release();
  await world.pass(1);
  const next = await store.slots.hold(terms);
  world.runtime.sleep(31_000);
  await (await others.open()).slots.hold(terms);
  assertEquals(next.held, false);
  await world.settle();
  await assertLost(next, "replaced");
  assertEquals(
    [...types].sort(),
    ["acquire", "clockMoved", "lost", "releaseFailed", "released", "renew", "renewFailed"],
  );
});

Deno.test("terms that leave no second attempt are refused with what is allowed", async () => {
  await using world = new World();
  const { slots } = await world.open();
  const bad: readonly [Partial<Record<keyof HoldOptions, unknown>>, string][] = [
    [{ renewEveryMs: 13_500 }, "from 2 to 13499: received 13500"],
    [{ renewEveryMs: 30_000 }, "renewEveryMs"],
    [{ renewEveryMs: 1 }, "from 2 to 13499"],
    [
      { marginMs: 10_000, renewEveryMs: 10_000 },
      "renewEveryMs, which must be below (ttlMs - marginMs) / 2",
    ],
    [{ marginMs: 10_001, renewEveryMs: 10_000 }, "from 2 to 9999"],
    [{ marginMs: 30_000 }, "marginMs, which must be below the ttlMs of 30000, must be from 0 to"],
    [{ marginMs: -1 }, "from 0 to 29999: received -1"],
    [{ ttlMs: 1_000, toleranceMs: 0, marginMs: 996 }, "ttlMs - marginMs must be at least 5"],
    [{ renewTimeoutMs: everyMs }, "renewTimeoutMs, which must be below the renewEveryMs of 10000"],
    [{ renewTimeoutMs: 0 }, "from 1 to 9999: received 0"],
    [{ renewEveryMs: 100, renewTimeoutMs: 100 }, "from 1 to 99"],
    [{ ttlMs: 999 }, "ttlMs must be from 1000 to 86400000"],
    [{ ttlMs: 86_400_001 }, "ttlMs must be from 1000 to 86400000"],
    [{ toleranceMs: 30_000 }, "from 0 to 29999"],
    [{ toleranceMs: -1 }, "from 0 to 29999"],
    [{ background: 1 }, "background must be true or false: received 1"],
    [{ background: null }, "background must be true or false"],
    [{ stamps: 0 }, "stamps must be true or false: received 0"],
    [{ renewEvery: 100 } as Partial<HoldOptions>, "renewEveryMs"],
  ];
  world.client.sent.length = 0;
  for (const [options, allowed] of bad) {
    const { message } = await assertRejects(
      () => slots.hold({ ...terms, ...options } as HoldOptions),
      InvalidArgumentError,
      "Cannot hold slot: ",
    );
    assertStringIncludes(message, allowed);
  }
  for (const name of ["renewEveryMs", "marginMs", "renewTimeoutMs", "ttlMs", "toleranceMs"]) {
    for (const value of [1.5, NaN, "5", null, {}]) {
      const { message } = await assertRejects(
        () => slots.hold({ ...terms, [name]: value }),
        InvalidArgumentError,
      );
      assertStringIncludes(message, name);
    }
  }
  assertEquals(world.client.names, []);
});

Deno.test("the interval that is not given fits the margin that is", async () => {
  await using world = new World();
  const { slots } = await world.open();
  const hold = await slots.hold({ ...terms, marginMs: 29_000 });
  await world.pass(499);
  assertEquals(world.count("slot.renew"), 1);
  assert(hold.held);
});

Deno.test("a last use that is no number is refused, and the hold stays", async () => {
  await using world = new World();
  const { slots } = await world.open();
  const hold = await slots.hold(terms);
  for (const lastUsedMs of [BigInt(hold.lease.floorMs), "5", NaN, null] as unknown[]) {
    await assertRejects(
      () => hold.release({ lastUsedMs: lastUsedMs as number }),
      InvalidArgumentError,
      "lastUsedMs",
    );
    assert(hold.held);
  }
});

Deno.test("the tightest terms that are allowed keep a lease", async () => {
  await using world = new World();
  const tight: HoldOptions = {
    ...terms,
    ttlMs: 1_000,
    toleranceMs: 999,
    marginMs: 995,
    renewEveryMs: 2,
    renewTimeoutMs: 1,
  };
  const hold = await (await world.open()).slots.hold(tight);
  await world.pass(1_000);
  assertEquals([hold.held, world.count("slot.renew")], [true, 500]);
});
