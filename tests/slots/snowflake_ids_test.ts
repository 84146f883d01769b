import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import {
  IdsExhaustedError,
  InvalidArgumentError,
  LeaseLostError,
  StoreError,
  TimeoutError,
} from "../../core/errors.ts";
import type { SnowflakeIds } from "../../core/id/snowflake_ids.ts";
import {
  parseSnowflakeId,
  safeIntegerLayout,
  type SnowflakeLayout,
  snowflakeLayout,
} from "../../core/id/snowflake_layout.ts";
import type { HoldOptions } from "../../core/slot/slot_arguments.ts";
import type { SlotHold } from "../../core/slot/slot_hold.ts";
import { sql } from "../../core/sql/statement.ts";
import { openStoreOver } from "../../core/store.ts";
import { NodeSqliteClient, sqliteDialect } from "../../dialects/sqlite/mod.ts";
import { StagedError } from "../tck/clients.ts";
import { HostRuntime, SlotWorld } from "../tck/slot/world.ts";

const startMs = 1_800_000_000_000;

/** A machine, and a database in memory whose clock the test moves as well. */
class World extends SlotWorld implements AsyncDisposable {
  readonly database: DatabaseSync;
  /** How far the store clock is ahead of the real time. */
  storeAheadMs = 0;

  constructor() {
    const runtime = new HostRuntime(startMs);
    const database = new DatabaseSync(":memory:");
    const dialect = Object.create(sqliteDialect, { nowMillis: { value: sql`store_now()` } });
    super({
      runtime,
      client: new NodeSqliteClient(database, { opened: false }),
      dialect,
      open: ({ client, ...options }) =>
        openStoreOver(client, { builtIn: [dialect], initSchema: true, ...options }),
    });
    this.database = database;
    database.function("store_now", () => BigInt(Math.floor(runtime.realMs + this.storeAheadMs)));
  }

  /** The first millisecond of the window of the next holder. */
  get nextFloorMs(): number {
    const statement = this.database.prepare("select next_floor_ms from cosid_slot where slot = 0");
    return Number(statement.get()?.next_floor_ms);
  }
  set nextFloorMs(ms: number) {
    this.database.prepare("update cosid_slot set next_floor_ms = ?").run(ms);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
    this.database.close();
  }
}

/** Trusted for 27 s; its window ends 32 s after it was renewed. */
const terms: HoldOptions = { namespace: "events", limit: 1 };

/** Two ids a millisecond, so that a test soon uses one up. */
const narrow: SnowflakeLayout = { ...snowflakeLayout, sequenceBits: 1 };

/** All ids that there are without waiting. */
function drain(ids: SnowflakeIds, atMost = 1_000_000): bigint[] {
  const drawn: bigint[] = [];
  while (drawn.length < atMost) {
    const id = ids.tryNext();
    if (id === undefined) break;
    drawn.push(id);
  }
  return drawn;
}

/** Fails unless each id is larger than the one before. */
function assertRising(ids: readonly (bigint | number | string)[]): void {
  let last = -1n;
  for (const id of ids) {
    const value = BigInt(id);
    assert(value > last, `${value} follows ${last}`);
    last = value;
  }
}

/** The milliseconds of ids, from the first to the last of each unit. */
function spanOf(ids: readonly (bigint | number | string)[], layout: SnowflakeLayout) {
  const times = ids.map((id) => parseSnowflakeId(id, layout).timestampMs);
  let [firstMs, lastMs] = [Infinity, -Infinity];
  for (const ms of times) {
    firstMs = Math.min(firstMs, ms);
    lastMs = Math.max(lastMs, ms + layout.unitMs - 1);
  }
  return { firstMs, lastMs };
}

/** Fails unless all that an id stands for lies within the window of the lease. */
function assertInside(ids: readonly (bigint | number | string)[], hold: SlotHold, layout = narrow) {
  const { firstMs, lastMs } = spanOf(ids, layout);
  const { floorMs, ceilingMs } = hold.lease;
  assert(firstMs >= floorMs, `${firstMs} lies before the floor ${floorMs}`);
  assert(lastMs <= ceilingMs, `${lastMs} lies beyond the ceiling ${ceilingMs}`);
}

Deno.test("an id is the time, the slot and the sequence, from 0 up in each unit", async () => {
  await using world = new World();
  const store = await world.open();
  const ids = await store.snowflakeIds({ namespace: "events", preferredSlot: 5 });
  for (const timestampMs of [startMs, startMs + 1, startMs + 100]) {
    await world.pass(timestampMs - world.runtime.realMs);
    for (const sequence of [0, 1, 2]) {
      const parts = ids.parse(await ids.next());
      assertEquals(parts, { timestampMs, slot: 5, sequence });
    }
  }
});

interface HostClock {
  readonly name: string;
  /** By how much the host's clock is wrong. */
  readonly byMs: number;
  /** How far the time in an id is from the real time. */
  readonly stampedMs: number;
}

const hostClocks: readonly HostClock[] = [
  { name: "right", byMs: 0, stampedMs: 0 },
  { name: "a little fast", byMs: 1_500, stampedMs: 1_500 },
  { name: "fast", byMs: 60_000, stampedMs: 2_000 },
  { name: "a year fast", byMs: 31_536_000_000, stampedMs: 2_000 },
  { name: "slow", byMs: -60_000, stampedMs: -60_000 },
];

for (const { name, byMs, stampedMs } of hostClocks) {
  Deno.test(`time is the least of host clock and store clock + tolerance: ${name}`, async () => {
    await using world = new World();
    world.runtime.setWall(byMs);
    const store = await world.open();
    const hold = await store.slots.hold(terms);
    const ids = await store.snowflakeIds({ hold, layout: narrow });
    const drawn: bigint[] = [];
    for (let count = 0; count < 100; count++) {
      const id = await ids.next();
      drawn.push(id);
      assertEquals(ids.parse(id).timestampMs, world.runtime.realMs + stampedMs);
      await world.pass(777);
    }
    assertRising(drawn);
    assertInside(drawn, hold);
  });
}

for (const byMs of [-3_600_000, 3_600_000, -1e12]) {
  Deno.test(`a host clock that is set ${byMs} ms stalls nothing and repeats nothing`, async () => {
    await using world = new World();
    const store = await world.open();
    const hold = await store.slots.hold(terms);
    const ids = await store.snowflakeIds({ hold, layout: narrow, maxAheadMs: 0 });
    const drawn = drain(ids, 1);
    world.runtime.setWall(byMs);
    for (let count = 1; count <= 2_000; count++) {
      await world.pass(1);
      for (let draw = 0; draw < 2; draw++) {
        const id = ids.tryNext();
        assert(id !== undefined, `it stalls ${count} ms later`);
        drawn.push(id);
      }
    }
    assertInside(drawn, hold);
    assertRising(drawn);
    const { timestampMs } = ids.parse(drawn.at(-1) ?? 0n);
    assert(timestampMs <= world.runtime.realMs + 2_000 + 10, "it runs away from the store clock");
  });
}

Deno.test("a host clock that stands still stalls nothing: the store clock goes on", async () => {
  await using world = new World();
  const store = await world.open();
  const hold = await store.slots.hold(terms);
  const ids = await store.snowflakeIds({ hold, layout: narrow, maxAheadMs: 0 });
  const drawn = drain(ids);
  for (let count = 0; count < 500; count++) {
    world.runtime.setWall(-10);
    await world.pass(10);
    const more = drain(ids);
    assertEquals(more.length, 20);
    drawn.push(...more);
  }
  assertRising(drawn);
  assertInside(drawn, hold);
});

Deno.test("a window that begins ahead of the clock is stamped from its floor, without a wait", async () => {
  await using world = new World();
  const store = await world.open();
  await (await store.slots.hold(terms)).release();
  const floorMs = startMs + 20_000;
  world.nextFloorMs = floorMs;
  const hold = await store.slots.hold(terms);
  const ids = await store.snowflakeIds({ hold, layout: narrow });
  assertEquals(ids.parse(await ids.next()), { timestampMs: floorMs, slot: 0, sequence: 0 });
  assertEquals(ids.parse(await ids.next()), { timestampMs: floorMs, slot: 0, sequence: 1 });
  await world.pass(20_005);
  assertEquals(ids.parse(await ids.next()).timestampMs, floorMs + 5);
});

Deno.test("what a unit lacks the next ones give, up to maxAheadMs ahead of the clock", async () => {
  for (const maxAheadMs of [0, 1, 10, 1_000]) {
    await using world = new World();
    const store = await world.open();
    const hold = await store.slots.hold(terms);
    const ids = await store.snowflakeIds({ hold, layout: narrow, maxAheadMs });
    const drawn = drain(ids);
    assertEquals(drawn.length, 2 * (maxAheadMs + 1));
    assertRising(drawn);
    assertEquals(spanOf(drawn, narrow), { firstMs: startMs, lastMs: startMs + maxAheadMs });
    assertEquals(ids.tryNext(), undefined);
    await world.pass(3);
    // Of the 3 ms that have passed those are left that were not made ahead.
    assertEquals(drain(ids).length, 2 * Math.min(3, maxAheadMs + 1));
  }
});

Deno.test("maxAheadMs is 1,000 unless given", async () => {
  await using world = new World();
  const ids = await (await world.open()).snowflakeIds({ namespace: "events", layout: narrow });
  assertEquals(drain(ids).length, 2_002);
});

Deno.test("next waits for the clock and no longer, and its wait has a deadline", async () => {
  await using world = new World();
  const store = await world.open();
  const hold = await store.slots.hold(terms);
  const ids = await store.snowflakeIds({ hold, layout: narrow, maxAheadMs: 0 });
  const last = drain(ids).at(-1) ?? 0n;
  let id: bigint | undefined;
  const waiting = ids.next().then((made) => id = made);
  await world.pass(0.5);
  assertEquals(id, undefined);
  await world.pass(0.5);
  assert(await waiting > last);
  assertEquals(ids.parse(await waiting).timestampMs, startMs + 1);
  drain(ids);
  const reason = new Error("enough");
  const controller = new AbortController();
  const aborted = ids.next({ signal: controller.signal }).catch((error) => error);
  controller.abort(reason);
  assert(await aborted === reason);
  await world.pass(1);
  drain(ids);
  const many = assertRejects(() => ids.nextMany(1_000, { timeoutMs: 20 }), TimeoutError);
  await world.pass(20);
  assertEquals((await many).timeoutMs, 20);
  assertEquals(world.count("slot.renew"), 0);
});

/** Its window ends 1 s after it was renewed, and ids may be made as far ahead as there is window. */
const short = { ...terms, ttlMs: 1_000, toleranceMs: 0, background: false };

async function openShort(world: World) {
  const store = await world.open();
  const hold = await store.slots.hold(short);
  const ids = await store.snowflakeIds({ hold, layout: narrow, maxAheadMs: 100_000 });
  return { store, hold, ids };
}

Deno.test("nothing is stamped beyond the ceiling: tryNext gives nothing", async () => {
  await using world = new World();
  const { hold, ids } = await openShort(world);
  const drawn = drain(ids);
  assertEquals(spanOf(drawn, narrow).lastMs, hold.lease.ceilingMs);
  assertEquals(drawn.length, 2 * 1_001);
  assertEquals([ids.tryNext(), ids.tryNext(), world.count("slot.renew")], [
    undefined,
    undefined,
    0,
  ]);
  world.runtime.block(500);
  await hold.renew();
  const more = drain(ids);
  assertEquals(more.length, 1_000);
  assertInside(more, hold);
  assertRising([...drawn, ...more]);
});

Deno.test("beyond the ceiling next asks for a renewal, one for all, and waits for it", async () => {
  await using world = new World();
  const { hold, ids } = await openShort(world);
  const drawn = drain(ids);
  world.runtime.block(300);
  world.answer(async ({ send }) => {
    await world.wait(100);
    return await send();
  }, "slot.renew");
  const calls = Array.from({ length: 100 }, () => ids.next());
  await world.pass(99);
  assertEquals([world.count("slot.renew"), ids.tryNext()], [1, undefined]);
  await world.pass(1);
  drawn.push(...await Promise.all(calls));
  assertEquals(world.count("slot.renew"), 1);
  assertRising(drawn);
  assertInside(drawn, hold);
});

Deno.test("beyond the ceiling next goes on asking while the database is away", async () => {
  await using world = new World();
  const { hold, ids } = await openShort(world);
  const drawn = drain(ids);
  world.cut();
  world.runtime.block(200);
  const waiting = ids.next();
  await world.pass(400);
  const attempts = world.count("slot.renew");
  assert(attempts >= 2 && attempts <= 50, `${attempts} attempts`);
  world.mend();
  await world.pass(300);
  drawn.push(await waiting);
  assertRising(drawn);
  assertInside(drawn, hold);
});

Deno.test("beyond the ceiling next ends at its deadline", async () => {
  await using world = new World();
  const { ids } = await openShort(world);
  drain(ids);
  world.answer(() => new Promise(() => {}), "slot.renew");
  const calls = [
    assertRejects(() => ids.next({ timeoutMs: 50 }), TimeoutError),
    assertRejects(() => ids.nextMany(10, { timeoutMs: 50 }), TimeoutError),
  ];
  await world.pass(50);
  for (const { timeoutMs } of await Promise.all(calls)) assertEquals(timeoutMs, 50);
});

Deno.test("next that waits beyond the ceiling ends with the lease", async () => {
  await using world = new World();
  const { hold, ids } = await openShort(world);
  drain(ids);
  world.cut();
  const calls = [
    assertRejects(() => ids.next(), LeaseLostError),
    assertRejects(() => ids.nextMany(5), LeaseLostError),
  ];
  await world.pass(2_000);
  for (const { reason } of await Promise.all(calls)) assertEquals(reason, "expired");
  assertEquals(hold.held, false);
});

/** Fails unless nothing can be stamped, for that reason. */
async function assertEnded(ids: SnowflakeIds, reason: string): Promise<void> {
  const errors = [
    assertThrows(() => ids.tryNext(), LeaseLostError, "Cannot make id"),
    await assertRejects(() => ids.next(), LeaseLostError, "Cannot make id"),
    await assertRejects(() => ids.nextMany(3), LeaseLostError, "Cannot make id"),
  ];
  assertEquals(errors.map((error) => error.reason), [reason, reason, reason]);
}

Deno.test("after the loss of the lease nothing is stamped: expired", async () => {
  await using world = new World();
  const store = await world.open();
  const ids = await store.snowflakeIds({ namespace: "events" });
  await ids.next();
  world.runtime.block(26_999);
  await ids.next();
  world.runtime.block(1);
  await assertEnded(ids, "expired");
});

Deno.test("after the loss of the lease nothing is stamped: replaced", async () => {
  await using world = new World();
  const store = await world.open();
  const hold = await store.slots.hold({ ...terms, ownerKey: "one" });
  const ids = await store.snowflakeIds({ hold });
  world.runtime.block(1);
  // The unit has ids left.
  await ids.next();
  await store.slots.acquire({ ...terms, ownerKey: "one" });
  await assertRejects(() => hold.renew(), LeaseLostError);
  await assertEnded(ids, "replaced");
});

Deno.test("after a release nothing is stamped, and after its store was closed neither", async () => {
  await using world = new World();
  const store = await world.open();
  const hold = await store.slots.hold(terms);
  const ids = await store.snowflakeIds({ hold });
  const other = await store.snowflakeIds({ namespace: "others" });
  await hold.release();
  await assertEnded(ids, "released");
  await other.next();
  await store.close();
  await assertEnded(other, "released");
});

Deno.test("a lease that its store was told to release is not stamped either", async () => {
  await using world = new World();
  const store = await world.open();
  const hold = await store.slots.hold(terms);
  const ids = await store.snowflakeIds({ hold });
  const { timestampMs } = ids.parse(await ids.next());
  world.answer(({ send }) => {
    assertThrows(() => ids.tryNext(), LeaseLostError);
    return send();
  }, "slot.release");
  await store.slots.release(hold.lease);
  await assertEnded(ids, "released");
  assertEquals(world.nextFloorMs, timestampMs + 1);
});

Deno.test("generators of one hold share what was stamped", async () => {
  await using world = new World();
  const store = await world.open();
  const hold = await store.slots.hold(terms);
  const layout = { ...safeIntegerLayout, sequenceBits: 2 };
  const one = await store.snowflakeIds({ hold, layout });
  const drawn: (bigint | number | string)[] = drain(one, 10);
  const generators = [
    one,
    await store.snowflakeIds({ hold, layout }),
    await store.snowflakeIds({ hold, layout, format: "number" }),
    await store.snowflakeIds({ hold, layout, format: "string", maxAheadMs: 20 }),
  ];
  for (let count = 0; count < 4_000; count++) {
    const id = generators[count * 7 % 4]?.tryNext();
    if (id !== undefined) drawn.push(id);
    if (count % 5 === 0) world.runtime.block(1);
  }
  assert(drawn.length > 3_000, `${drawn.length} ids`);
  assertRising(drawn);
});

Deno.test("a hold has one layout, also after its generator was closed", async () => {
  await using world = new World();
  const store = await world.open();
  const hold = await store.slots.hold(terms);
  const first = await store.snowflakeIds({ hold, layout: narrow });
  for (const name of Object.keys(narrow) as (keyof SnowflakeLayout)[]) {
    const by = name === "timeBits" || name === "slotBits" ? -1 : 1;
    const layout = { ...narrow, [name]: narrow[name] + by };
    await assertRejects(
      () => store.snowflakeIds({ hold, layout }),
      InvalidArgumentError,
      "another layout",
    );
  }
  await first.close();
  await assertRejects(() => store.snowflakeIds({ hold }), InvalidArgumentError, "another layout");
  const again = await store.snowflakeIds({ hold, layout: { ...narrow } });
  await again.next();
});

Deno.test("a copy of a hold or a lease cannot be stamped from", async () => {
  await using world = new World();
  const store = await world.open();
  const hold = await store.slots.hold(terms);
  const { lease } = hold;
  const copies: readonly unknown[] = [
    lease,
    { ...lease },
    JSON.parse(JSON.stringify(lease)),
    structuredClone(lease),
    { ...hold },
    JSON.parse(JSON.stringify(hold)),
    structuredClone({ ...hold }),
    Object.create(hold),
    new Proxy(hold, {}),
    { hold },
    null,
    5,
  ];
  for (const copy of copies) {
    await assertRejects(
      () => store.snowflakeIds({ hold: copy as SlotHold }),
      InvalidArgumentError,
      "hold must be a SlotHold",
    );
  }
  await (await store.snowflakeIds({ hold })).next();
});

const wide: readonly SnowflakeLayout[] = [
  { epochMs: startMs - 1_000_123, timeBits: 30, slotBits: 10, sequenceBits: 1, unitMs: 10 },
  { epochMs: startMs - 1_000_123, timeBits: 30, slotBits: 10, sequenceBits: 1, unitMs: 1_000 },
  { epochMs: startMs - 1_000_123, timeBits: 30, slotBits: 10, sequenceBits: 1, unitMs: 7_000 },
];

for (const layout of wide) {
  Deno.test(`only units that lie wholly inside the window are used: ${layout.unitMs} ms`, async () => {
    await using world = new World();
    const store = await world.open();
    await (await store.slots.hold(terms)).release();
    await world.pass(60_000);
    const drawn: bigint[] = [];
    for (let count = 0; count < 8; count++) {
      // The floor falls anywhere in a unit, and so does the ceiling.
      world.nextFloorMs = Math.max(world.nextFloorMs, world.runtime.realMs) + count * 37;
      const hold = await store.slots.hold({ ...terms, maxAheadMs: 172_800_000 });
      const ids = await store.snowflakeIds({ hold, layout, maxAheadMs: 172_800_000 });
      const drained = drain(ids);
      assert(drained.length > 0, "the window has no unit");
      assertInside(drained, hold, layout);
      const { firstMs, lastMs } = spanOf(drained, layout);
      const { floorMs, ceilingMs } = hold.lease;
      assert(firstMs < floorMs + layout.unitMs, "it skips a unit that is inside");
      assert(lastMs + layout.unitMs > ceilingMs, "it leaves a unit that is inside");
      drawn.push(...drained);
      // Nothing of the unit that was used last is left to the next holder.
      await hold.release();
      assertEquals(world.nextFloorMs, lastMs + 1);
      await world.pass(60_000);
    }
    assertRising(drawn);
  });
}

Deno.test("next waits until a whole unit fits into the window, without haste", async () => {
  const [, , layout] = wide;
  await using world = new World();
  const store = await world.open();
  await (await store.slots.hold(terms)).release();
  // The window begins where the last one ended, and is only 2 s long.
  const hold = await store.slots.hold({ ...terms, maxAheadMs: 172_800_000 });
  const ids = await store.snowflakeIds({ hold, layout });
  assertEquals(ids.tryNext(), undefined);
  world.answer(async ({ send }) => {
    await world.wait(1);
    return await send();
  }, "slot.renew");
  const waiting = ids.next({ timeoutMs: 30_000 });
  await world.pass(14_000);
  assertInside([await waiting], hold, layout);
  assert(world.count("slot.renew") <= 20, `${world.count("slot.renew")} renewals`);
});

Deno.test("a release says the end of the last unit as used, or nothing of the window if none was", async () => {
  await using world = new World();
  const store = await world.open();
  const layout = { ...narrow, unitMs: 1_000, epochMs: startMs - 300, timeBits: 31 };
  const hold = await store.slots.hold(terms);
  const ids = await store.snowflakeIds({ hold, layout });
  assertEquals(ids.parse(await ids.next()).timestampMs, startMs - 300);
  await hold.release();
  assertEquals(world.nextFloorMs, startMs + 700);
  const unused = await store.slots.hold(terms);
  await store.snowflakeIds({ hold: unused, layout });
  await unused.release();
  assertEquals(world.nextFloorMs, startMs + 700);
});

Deno.test("after a release the next holder goes on behind the last id, whatever its clock", async () => {
  await using world = new World();
  const store = await world.open();
  const drawn: bigint[] = [];
  for (let count = 0; count < 60; count++) {
    world.runtime.setWall([0, -3_600_000, 3_600_000, 50_000, -50_000][count % 5] ?? 0);
    const ids = await store.snowflakeIds({ namespace: "events", limit: 1, layout: narrow });
    assertEquals(ids.hold.lease.fence, count + 1);
    const first = await ids.next();
    const last = drawn.at(-1);
    if (last !== undefined) {
      const waitedMs = ids.parse(first).timestampMs - ids.parse(last).timestampMs;
      assert(waitedMs <= 2_001, `${waitedMs} ms were left out`);
    }
    drawn.push(first, ...await ids.nextMany(1 + count % 7));
    await ids.close();
  }
  assertRising(drawn);
});

Deno.test("after a holder that vanished the next one stamps behind all that it may have stamped", async () => {
  await using world = new World();
  const store = await world.open();
  const drawn: bigint[] = [];
  for (let count = 0; count < 8; count++) {
    const hold = await store.slots.hold({ ...terms, background: false });
    const ids = await store.snowflakeIds({ hold, layout: narrow, maxAheadMs: 172_800_000 });
    drawn.push(...drain(ids, count % 2 === 0 ? 1_000_000 : 5));
    // Nobody renews or releases it.
    world.runtime.block(33_000);
  }
  assertRising(drawn);
});

Deno.test("the formats give the same ids", async () => {
  const drawn: (readonly (bigint | number | string)[])[] = [];
  for (const format of ["bigint", "number", "string"] as const) {
    await using world = new World();
    const store = await world.open();
    const layout = safeIntegerLayout;
    const options = { namespace: "events", limit: 32, preferredSlot: 31, layout, format };
    const ids = await store.snowflakeIds(options);
    const made: (bigint | number | string)[] = [];
    for (let count = 0; count < 60; count++) {
      made.push(...await ids.nextMany(150));
      await world.pass(7);
      const id = ids.tryNext();
      assertEquals(typeof id, format);
      made.push(id ?? 0);
    }
    drawn.push(made);
  }
  const [bigints = [], numbers = [], strings = []] = drawn;
  assertEquals(numbers.map(BigInt), bigints);
  assertEquals(strings.map(BigInt), bigints);
  assert(numbers.every(Number.isSafeInteger));
  assertRising(bigints);
});

Deno.test("an id is rebuilt from its parts, for each preset and for a layout of one's own", async () => {
  const own = {
    epochMs: 1_700_000_000_000,
    timeBits: 36,
    slotBits: 3,
    sequenceBits: 5,
    unitMs: 20,
  };
  for (const layout of [snowflakeLayout, safeIntegerLayout, own]) {
    await using world = new World();
    const store = await world.open();
    const ids = await store.snowflakeIds({ namespace: "events", layout, preferredSlot: 6 });
    for (const id of await ids.nextMany(300)) {
      const { timestampMs, slot, sequence } = ids.parse(id);
      const units = BigInt((timestampMs - layout.epochMs) / layout.unitMs);
      const slots = units * 2n ** BigInt(layout.slotBits) + BigInt(slot);
      assertEquals(slots * 2n ** BigInt(layout.sequenceBits) + BigInt(sequence), id);
      assertEquals(slot, 6);
    }
    const [last = 0n] = await ids.nextMany(1);
    assertEquals(ids.parse(String(last)), ids.parse(last));
    for (const id of [-1, -1n, "12a", "", 1.5, 2 ** 53, 2n ** 63n]) {
      assertThrows(() => ids.parse(id), InvalidArgumentError, "Cannot parse id");
    }
  }
});

Deno.test("a namespace has as many slots as the layout has room for, unless a limit is given", async () => {
  await using world = new World();
  const store = await world.open();
  const cases: readonly [SnowflakeLayout | undefined, number | undefined, number][] = [
    [undefined, undefined, 1_024],
    [safeIntegerLayout, undefined, 32],
    [{ ...narrow, slotBits: 0 }, undefined, 1],
    [{ ...narrow, slotBits: 3 }, undefined, 8],
    [{ ...narrow, slotBits: 3 }, 8, 8],
    [{ ...narrow, slotBits: 3 }, 5, 5],
  ];
  for (const [index, [layout, limit, expected]] of cases.entries()) {
    const namespace = `n${index}`;
    await store.snowflakeIds({ namespace, layout, limit });
    assertEquals((await store.slots.inspect(namespace))?.limit, expected);
  }
});

Deno.test("what cannot make ids is refused with what is allowed, and nothing is sent", async () => {
  await using world = new World();
  const store = await world.open();
  const hold = await store.slots.hold({ ...terms, limit: 3, preferredSlot: 2 });
  const nowMs = world.runtime.wallMs();
  const bad: readonly [Record<string, unknown>, string][] = [
    [{ layout: { ...snowflakeLayout, timeBits: 42 } }, "at most 63: received 64"],
    [{ layout: { ...narrow, unitMs: 0 } }, "unitMs of the layout must be from 1 to 60000"],
    [{ layout: { ...narrow, epochMs: nowMs + 1 } }, "must not lie in the future"],
    [{ layout: { ...narrow, epochMs: nowMs - 2 ** 40, timeBits: 40 } }, "must not have run out"],
    [{ layout: { ...narrow, epochMs: nowMs - 4_000, timeBits: 2, unitMs: 1_000 } }, "run out, it"],
    [{ layout: { ...narrow, bits: 3 } }, "epochMs, timeBits, slotBits, sequenceBits, unitMs"],
    [{ layout: "snowflake" }, "must be an object"],
    [{ format: "number" }, "at most 53 for the format number, see safeIntegerLayout"],
    [{ format: "text" }, "format must be bigint or number or string"],
    [{ maxAheadMs: -1 }, "maxAheadMs must be from 0 to 172800000"],
    [{ maxAheadMs: 172_800_001 }, "maxAheadMs must be from 0 to 172800000"],
    [{ maxAheadMs: 1.5 }, "maxAheadMs"],
    [{ maxAhead: 5 }, "maxAheadMs"],
  ];
  const own: readonly [Record<string, unknown>, string][] = [
    [{ limit: 1_025 }, "limit, for which the layout has 10 slotBits, must be from 1 to 1024"],
    [{ limit: 2, layout: { ...narrow, slotBits: 0 } }, "from 1 to 1: received 2"],
    [{ limit: 0 }, "from 1 to 1024"],
    [{ preferredSlot: 1_024 }, "from 0 to 1023"],
    [{ namespace: "" }, "the namespace must have 1 to 100"],
    [{ renewEveryMs: 20_000 }, "renewEveryMs"],
  ];
  const held: readonly [Record<string, unknown>, string][] = [
    [{ namespace: "events" }, "the options are hold, layout, format, maxAheadMs"],
    [{ limit: 5 }, "the options are hold"],
    [{ layout: { ...narrow, slotBits: 1 } }, "the slot must fit into 1 bits: received 2"],
    [{ hold: undefined }, "the namespace must be a string: received undefined"],
  ];
  const refused = async (options: Record<string, unknown>, allowed: string) => {
    const { message } = await assertRejects(
      () => store.snowflakeIds(options as { hold: SlotHold }),
      InvalidArgumentError,
      "Cannot ",
    );
    assertStringIncludes(message, allowed);
  };
  world.client.sent.length = 0;
  for (const [options, allowed] of [...bad, ...own]) {
    await refused({ namespace: "events", ...options }, allowed);
  }
  for (const [options, allowed] of [...bad, ...held]) await refused({ hold, ...options }, allowed);
  for (const options of [null, undefined, 5]) {
    await assertRejects(() => store.snowflakeIds(options as never), InvalidArgumentError);
  }
  assertEquals(world.client.names, []);
  // What was refused has given the hold no layout.
  await store.snowflakeIds({ hold, layout: narrow });
});

Deno.test("a generator tells when its layout runs out, the presets in 2089", async () => {
  await using world = new World();
  const store = await world.open();
  for (const layout of [snowflakeLayout, safeIntegerLayout]) {
    const ids = await store.snowflakeIds({ namespace: `n${layout.slotBits}`, layout });
    assertEquals(ids.exhaustsAt.getTime(), layout.epochMs + 2 ** 41);
    assertEquals(ids.layout, layout);
  }
});

Deno.test("when the bits for the time run out there is an error, and never an id out of range", async () => {
  for (const format of ["bigint", "number", "string"] as const) {
    for (const [timeBits, unitMs] of [[10, 1], [3, 1_000]] as const) {
      await using world = new World();
      const store = await world.open();
      const layout = { epochMs: startMs, timeBits, slotBits: 2, sequenceBits: 2, unitMs };
      const endMs = startMs + 2 ** timeBits * unitMs;
      const options = { namespace: "events", layout, format, maxAheadMs: 0 };
      const ids = await store.snowflakeIds(options);
      const drawn: (bigint | number | string)[] = [];
      while (world.runtime.realMs < endMs - 1) {
        drawn.push(await ids.next());
        await world.pass(Math.min(unitMs, endMs - 1 - world.runtime.realMs));
      }
      drawn.push(await ids.next());
      assertEquals(ids.parse(drawn.at(-1) ?? 0).timestampMs, endMs - unitMs);
      await world.pass(1);
      assertEquals(ids.exhaustsAt.getTime(), endMs);
      for (let count = 0; count < 3; count++) {
        const errors = [
          assertThrows(() => ids.tryNext(), IdsExhaustedError),
          await assertRejects(() => ids.next(), IdsExhaustedError),
          await assertRejects(() => ids.nextMany(2), IdsExhaustedError),
        ];
        for (const error of errors) assertEquals(error.exhaustedAt.getTime(), endMs);
        await world.pass(1_000);
      }
      assertRising(drawn);
      assert(drawn.every((id) => BigInt(id) < 2n ** BigInt(timeBits + 4)));
    }
  }
});

Deno.test("ids made ahead of the clock do not overflow the bits for the time either", async () => {
  await using world = new World();
  const store = await world.open();
  const layout = { epochMs: startMs, timeBits: 4, slotBits: 2, sequenceBits: 2, unitMs: 1 };
  const ids = await store.snowflakeIds({ namespace: "events", layout });
  const drawn: bigint[] = [];
  assertThrows(() => {
    for (;;) drawn.push(ids.tryNext() ?? -1n);
  }, IdsExhaustedError);
  assertEquals(drawn.length, 16 * 4);
  assertRising(drawn);
});

Deno.test("bad counts and options of a call are refused, and make no id", async () => {
  await using world = new World();
  const ids = await (await world.open()).snowflakeIds({ namespace: "events" });
  for (const count of [0, -1, 1_000_001, 1.5, NaN, Infinity, "5", null, undefined]) {
    const { message } = await assertRejects(
      () => ids.nextMany(count as number),
      InvalidArgumentError,
      "Cannot make ids: the count must be ",
    );
    assertStringIncludes(message, "received");
  }
  const bad: readonly unknown[] = [null, 5, { timeoutMs: 0 }, { signal: 1 }, { timeout: 5 }];
  for (const options of bad) {
    const call = options as { timeoutMs: number };
    await assertRejects(() => ids.next(call), InvalidArgumentError);
    await assertRejects(() => ids.nextMany(5, call), InvalidArgumentError);
    await assertRejects(() => ids.close(call), InvalidArgumentError);
  }
  assertEquals(ids.parse(await ids.next()).sequence, 0);
});

Deno.test("to close a generator of its own hold releases it, once", async () => {
  await using world = new World();
  const store = await world.open();
  const ids = await store.snowflakeIds({ namespace: "events", limit: 1 });
  const { timestampMs } = ids.parse(await ids.next());
  await Promise.all([ids.close(), ids.close()]);
  await ids.close();
  await ids[Symbol.asyncDispose]();
  assertEquals([world.count("slot.release"), world.nextFloorMs], [1, timestampMs + 1]);
  await assertEnded(ids, "released");
});

Deno.test("a close that failed can be repeated, and nothing is stamped meanwhile", async () => {
  await using world = new World();
  const store = await world.open();
  const ids = await store.snowflakeIds({ namespace: "events", limit: 1 });
  const { timestampMs } = ids.parse(await ids.next());
  world.cut();
  await assertRejects(() => ids.close(), StoreError);
  await assertEnded(ids, "released");
  world.mend();
  await ids.close();
  assertEquals(world.nextFloorMs, timestampMs + 1);
});

Deno.test("those who wait for ids are served in their order, and who leaves holds up nobody", async () => {
  await using world = new World();
  const store = await world.open();
  const layout = { ...snowflakeLayout, sequenceBits: 1 };
  const ids = await store.snowflakeIds({ namespace: "events", layout, maxAheadMs: 0 });
  const leaving = new AbortController();
  const order: string[] = [];
  const drawn: bigint[] = [];
  const note = (name: string) => (made: bigint | bigint[]) => {
    order.push(name);
    drawn.push(...[made].flat());
  };
  while (ids.tryNext() !== undefined);
  const calls = [
    ids.nextMany(5).then(note("first")),
    ids.next({ signal: leaving.signal }).then(note("left"), () => order.push("gone")),
    ids.next().then(note("second")),
    ids.nextMany(3).then(note("third")),
    ids.next().then(note("fourth")),
  ];
  leaving.abort();
  await world.pass(20);
  await Promise.all(calls);
  assertEquals(order, ["gone", "first", "second", "third", "fourth"]);
  assertEquals(drawn, [...drawn].sort((a, b) => Number(a - b)));
  assertEquals(new Set(drawn).size, 10);
});

Deno.test("a call whose signal was aborted makes no id", async () => {
  await using world = new World();
  const ids = await (await world.open()).snowflakeIds({ namespace: "events" });
  const reason = new Error("no longer wanted");
  const signal = AbortSignal.abort(reason);
  assertEquals(await ids.next({ signal }).catch((error) => error), reason);
  assertEquals(await ids.nextMany(2, { signal }).catch((error) => error), reason);
});

Deno.test("to close a generator over a hold that was given leaves the hold", async () => {
  await using world = new World();
  const store = await world.open();
  const hold = await store.slots.hold(terms);
  {
    await using ids = await store.snowflakeIds({ hold });
    await ids.next();
  }
  const ids = await store.snowflakeIds({ hold });
  const other = await store.snowflakeIds({ hold });
  await ids.close();
  await assertEnded(ids, "closed");
  assertEquals([hold.held, world.count("slot.release")], [true, 0]);
  await other.next();
});

Deno.test("the end of a scope does not throw when the database is away", async () => {
  await using world = new World();
  const store = await world.open();
  {
    await using ids = await store.snowflakeIds({ namespace: "events" });
    await ids.next();
    world.cut();
  }
  const [event] = world.told("releaseFailed");
  assertInstanceOf(event?.error, StoreError);
  assertInstanceOf(event.error.cause, StagedError);
});

Deno.test("50,000 ids of concurrent callers are distinct, within one window, and rise for each", async () => {
  await using world = new World();
  const store = await world.open();
  const hold = await store.slots.hold(terms);
  const ids = await store.snowflakeIds({ hold });
  const calls = Array.from({ length: 10 }, () => ids.nextMany(5_000));
  const made = await Promise.all(calls);
  made.forEach(assertRising);
  const all = made.flat();
  assertEquals([all.length, new Set(all).size], [50_000, 50_000]);
  assertInside(all, hold, snowflakeLayout);
  assertEquals(world.count("slot.renew"), 0);
});

Deno.test("callers that wait for the clock together get distinct ids, which rise for each", async () => {
  await using world = new World();
  const store = await world.open();
  const hold = await store.slots.hold(terms);
  const layout = { ...snowflakeLayout, sequenceBits: 4 };
  const ids = await store.snowflakeIds({ hold, layout, maxAheadMs: 10 });
  const calls = Array.from({ length: 10 }, () => ids.nextMany(300, { timeoutMs: 30_000 }));
  const single = Array.from({ length: 50 }, () => ids.next({ timeoutMs: 30_000 }));
  await world.pass(250);
  const made = await Promise.all(calls);
  made.forEach(assertRising);
  const all = [...made.flat(), ...await Promise.all(single)];
  assertEquals([all.length, new Set(all).size], [3_050, 3_050]);
  assertInside(all, hold, layout);
});

/** Numbers that seem random, the same in every run. */
function chances(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return Math.floor(state / 2 ** 31 * below);
  };
}

for (const layout of [narrow, ...wide]) {
  Deno.test(`whatever the clocks do, no id comes twice: units of ${layout.unitMs} ms`, async () => {
    for (let seed = 1; seed <= 3; seed++) {
      await using world = new World();
      const store = await world.open();
      const chance = chances(seed);
      const drawn: bigint[] = [];
      let hold = await store.slots.hold(terms);
      let generators = [await store.snowflakeIds({ hold, layout })];
      for (let step = 0; step < 600; step++) {
        switch (chance(12)) {
          case 0:
            world.runtime.setWall(chance(200_000) - 100_000);
            break;
          case 1:
            world.storeAheadMs += chance(20_000) - 10_000;
            break;
          case 2:
            world.runtime.sleep(chance(10_000));
            break;
          case 3:
            world.runtime.block(chance(10_000));
            break;
          case 4:
            generators.push(await store.snowflakeIds({ hold, layout, maxAheadMs: chance(90_000) }));
            break;
          case 5:
            await hold.renew().catch(() => {});
            break;
          default:
            await world.pass(chance(1_500));
        }
        if (!hold.held || chance(60) === 0) {
          if (chance(2) === 0) await hold.release();
          const next = await store.slots.hold(terms).catch(() => undefined);
          if (next === undefined) continue;
          hold = next;
          generators = [await store.snowflakeIds({ hold, layout })];
        }
        if (!hold.held) continue;
        for (let draw = chance(20); draw > 0; draw--) {
          const id = generators[chance(generators.length)]?.tryNext();
          if (id === undefined) break;
          drawn.push(id);
          assertInside([id], hold, layout);
        }
      }
      assert(drawn.length > 100, `${drawn.length} ids`);
      assertRising(drawn);
    }
  });
}
