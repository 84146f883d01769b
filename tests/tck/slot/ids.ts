import { InvalidArgumentError, LeaseLostError, TimeoutError } from "../../../core/errors.ts";
import type { SnowflakeIds } from "../../../core/id/snowflake_ids.ts";
import {
  parseSnowflakeId,
  safeIntegerLayout,
  type SnowflakeLayout,
  snowflakeLayout,
} from "../../../core/id/snowflake_layout.ts";
import type { HoldOptions } from "../../../core/slot/slot_arguments.ts";
import type { SlotHold } from "../../../core/slot/slot_hold.ts";
import { check, checkEqual, checkRejects } from "../check.ts";
import type { TckCase } from "../context.ts";
import { StagedError } from "../clients.ts";
import { expire, onMachine, rowOf } from "./world.ts";

const terms: HoldOptions = { namespace: "events", limit: 1 };

/** However far ahead a window begins, the slot can be taken and the window used. */
const anyAhead = { maxAheadMs: 172_800_000 };

/** Two ids a millisecond, so that a case soon uses up a window. */
const narrow: SnowflakeLayout = { ...snowflakeLayout, sequenceBits: 1 };

/** Its window ends 1 s after it was renewed. */
const short = { ...terms, ttlMs: 1_000, toleranceMs: 0, background: false };

/** All ids that there are without waiting. */
function drain(ids: SnowflakeIds): bigint[] {
  const drawn: bigint[] = [];
  for (;;) {
    const id = ids.tryNext();
    if (id === undefined) return drawn;
    drawn.push(id);
  }
}

/** Fails unless each id is larger than the one before. */
function checkRising(ids: readonly bigint[]): void {
  let last = -1n;
  for (const id of ids) {
    check(id > last, `${id} follows ${last}`);
    last = id;
  }
}

/** Fails unless no id comes twice. */
function checkDistinct(ids: readonly bigint[], count: number): void {
  checkEqual([ids.length, new Set(ids).size], [count, count], "the ids, and the distinct ones");
}

/** Fails unless all that the ids stand for lies within a window. */
function checkInside(
  ids: readonly bigint[],
  { floorMs, ceilingMs }: { floorMs: number; ceilingMs: number },
  layout = narrow,
): void {
  for (const id of ids) {
    const { timestampMs } = parseSnowflakeId(id, layout);
    check(timestampMs >= floorMs, `${timestampMs} lies before the floor ${floorMs}`);
    const lastMs = timestampMs + layout.unitMs - 1;
    check(lastMs <= ceilingMs, `${lastMs} lies beyond the ceiling ${ceilingMs}`);
  }
}

/** Snowflake ids over a hold. */
export const idsCases: readonly TckCase[] = [
  {
    name: "the ids of four stores with four holds are distinct, over some acquires of each",
    async run(context) {
      await context.open();
      const layout = { ...narrow, slotBits: 2, sequenceBits: 6 };
      const draw = async (): Promise<bigint[]> => {
        const store = await context.open();
        const drawn: bigint[] = [];
        for (let round = 0; round < 4; round++) {
          const ids = await store.snowflakeIds({ namespace: "events", layout });
          for (const id of await ids.nextMany(1_000)) {
            checkEqual(ids.parse(id).slot, ids.hold.lease.slot, "the slot in the id");
            drawn.push(id);
          }
          await ids.close();
        }
        return drawn;
      };
      const drawn = await Promise.all([draw(), draw(), draw(), draw()]);
      checkDistinct(drawn.flat(), 16_000);
    },
  },
  {
    name: "after a release the next holder goes on behind the last id, whatever its host's clock",
    run: onMachine(async (world) => {
      const store = await world.open();
      const drawn: bigint[] = [];
      for (const byMs of [0, -3_600_000, 7_200_000, -3_600_000]) {
        world.runtime.setWall(byMs);
        const ids = await store.snowflakeIds({ ...terms, layout: narrow, maxAheadMs: 1_000 });
        drawn.push(...await ids.nextMany(25));
        const { lease } = ids.hold;
        await ids.close();
        const { timestampMs } = ids.parse(drawn.at(-1) ?? 0n);
        checkEqual((await rowOf(store, lease)).nextFloorMs, timestampMs + 1, "the next floor");
      }
      checkRising(drawn);
    }),
  },
  {
    name: "after a holder that vanished the next one stamps behind all that it may have stamped",
    run: onMachine(async (world, context) => {
      const store = await world.open();
      const drawn: bigint[] = [];
      for (let count = 0; count < 3; count++) {
        const hold = await store.slots.hold({ ...short, ...anyAhead });
        const ids = await store.snowflakeIds({ hold, layout: narrow, ...anyAhead });
        drawn.push(...drain(ids));
        await hold.renew();
        drawn.push(...drain(ids));
        await expire(context, hold.lease);
      }
      checkRising(drawn);
    }),
  },
  {
    name: "nothing is stamped outside the window that the row has, however fast ids are asked for",
    run: onMachine(async (world) => {
      const store = await world.open();
      const hold = await store.slots.hold(short);
      const ids = await store.snowflakeIds({ hold, layout: narrow, ...anyAhead });
      const drawn: bigint[] = [];
      for (let count = 0; count < 4; count++) {
        const more = drain(ids);
        checkInside(more, await rowOf(store, hold.lease));
        drawn.push(...more);
        world.runtime.block(100);
        await hold.renew();
      }
      check(drawn.length >= 2_000, `${drawn.length} ids`);
      checkRising(drawn);
    }),
  },
  {
    name: "nothing is stamped beyond what a renewal whose answer was lost may not have written",
    run: onMachine(async (world) => {
      const store = await world.open();
      const hold = await store.slots.hold(short);
      const ids = await store.snowflakeIds({ hold, layout: narrow, ...anyAhead });
      const drawn = drain(ids);
      for (const written of [true, false]) {
        world.runtime.block(100);
        world.answer(async ({ send }) => {
          if (written) await send();
          throw new StagedError();
        }, "slot.renew");
        await hold.renew().catch(() => {});
        drawn.push(...drain(ids));
        checkInside(drawn, await rowOf(store, hold.lease));
      }
      world.mend();
      await hold.renew();
      drawn.push(...drain(ids));
      checkInside(drawn, await rowOf(store, hold.lease));
      checkRising(drawn);
    }),
  },
  {
    name: "beyond the ceiling next waits for a renewal, which it asks for once",
    run: onMachine(async (world, context) => {
      const store = await world.open();
      const hold = await store.slots.hold(short);
      const ids = await store.snowflakeIds({ hold, layout: narrow, ...anyAhead });
      const drawn = drain(ids);
      world.answer(() => new Promise(() => {}), "slot.renew");
      const late = checkRejects(ids.next({ timeoutMs: 20 }), TimeoutError);
      await world.pass(20);
      await late;
      world.mend();
      // The renewal that hangs ends first.
      await world.pass(200);
      const before = world.told("renew").length;
      // The database's clock, which the case does not move, has to have moved on.
      const { ceilingMs } = hold.lease;
      const other = await context.open();
      for (;;) {
        const state = await other.slots.inspect("events");
        if ((state?.nowMs ?? 0) + 1_000 > ceilingMs + 10) break;
      }
      const waiting = Promise.all(Array.from({ length: 5 }, () => ids.next()));
      await world.pass(50);
      drawn.push(...await waiting);
      checkEqual(world.told("renew").length - before, 1, "the renewals");
      checkRising(drawn);
      checkInside(drawn, await rowOf(store, hold.lease));
    }),
  },
  {
    name: "a host clock that is fast is kept to the store clock, one that is slow stalls nothing",
    run: onMachine(async (world) => {
      const store = await world.open();
      for (const byMs of [3_600_000, -3_600_000]) {
        const namespace = byMs > 0 ? "fast" : "slow";
        world.runtime.setWall(byMs);
        const hold = await store.slots.hold({ namespace, limit: 1, background: false });
        const ids = await store.snowflakeIds({ hold, layout: narrow });
        const drawn = await ids.nextMany(200);
        const nowMs = (await store.slots.inspect(namespace))?.nowMs ?? 0;
        const { timestampMs } = ids.parse(drawn[0] ?? 0n);
        if (byMs > 0) check(timestampMs <= nowMs + 2_000, `${timestampMs} at ${nowMs}`);
        else checkEqual(timestampMs, world.runtime.wallMs(), "the time in the id");
        checkRising(drawn);
        checkInside(drawn, await rowOf(store, hold.lease));
        world.runtime.setWall(-byMs);
        await hold.release();
      }
    }),
  },
  {
    name: "with units above a millisecond only those are used that lie wholly inside the window",
    run: onMachine(async (world) => {
      const store = await world.open();
      const layout = { ...narrow, epochMs: snowflakeLayout.epochMs + 123, unitMs: 700 };
      const drawn: bigint[] = [];
      for (let count = 0; count < 3; count++) {
        const hold = await store.slots.hold(terms);
        const ids = await store.snowflakeIds({ hold, layout, ...anyAhead });
        const all = count < 2 ? await ids.nextMany(3) : drain(ids);
        const row = await rowOf(store, hold.lease);
        checkInside(all, row, layout);
        drawn.push(...all);
        await hold.release();
        const { timestampMs } = ids.parse(all.at(-1) ?? 0n);
        checkEqual((await rowOf(store, hold.lease)).nextFloorMs, timestampMs + 700);
      }
      checkRising(drawn);
    }),
  },
  {
    name: "after the loss of the lease nothing is stamped",
    run: onMachine(async (world, context) => {
      const store = await world.open();
      const hold = await store.slots.hold({ ...terms, ...anyAhead, background: false });
      const ids = await store.snowflakeIds({ hold });
      await ids.next();
      await expire(context, hold.lease);
      const other = await context.open();
      const taken = await other.slots.acquire({ ...terms, ...anyAhead });
      await checkRejects(hold.renew(), LeaseLostError);
      const error = await checkRejects(ids.next(), LeaseLostError);
      checkEqual(error.reason, "replaced");
      await checkRejects(ids.nextMany(5), LeaseLostError);
      await other.slots.release(taken);
    }),
  },
  {
    name: "generators of one hold share what was stamped, and have one layout",
    run: onMachine(async (world) => {
      const store = await world.open();
      const hold = await store.slots.hold(terms);
      const [one, other] = [
        await store.snowflakeIds({ hold, layout: safeIntegerLayout }),
        await store.snowflakeIds({ hold, layout: safeIntegerLayout, format: "number" }),
      ];
      const drawn: bigint[] = [];
      for (let count = 0; count < 500; count++) {
        drawn.push(await one.next(), BigInt(await other.next()));
      }
      checkRising(drawn);
      await checkRejects(store.snowflakeIds({ hold }), InvalidArgumentError);
      for (const copy of [{ ...hold.lease }, JSON.parse(JSON.stringify(hold.lease)), { ...hold }]) {
        await checkRejects(store.snowflakeIds({ hold: copy as SlotHold }), InvalidArgumentError);
      }
      await one.close();
      await checkRejects(one.next(), LeaseLostError);
      check(hold.held, "a hold that was given is not released");
      check(BigInt(await other.next()) > (drawn.at(-1) ?? 0n), "the other goes on");
    }),
  },
  {
    name: "a namespace has as many slots as the layout has room for, unless a limit is given",
    async run(context) {
      const store = await context.open();
      const ids = await store.snowflakeIds({ namespace: "events", layout: safeIntegerLayout });
      const state = await store.slots.inspect("events");
      checkEqual([state?.limit, state?.slots.length], [32, 32]);
      await ids.close();
      const refused = store.snowflakeIds({
        namespace: "more",
        layout: safeIntegerLayout,
        limit: 33,
      });
      await checkRejects(refused, InvalidArgumentError);
      checkEqual(await store.slots.inspect("more"), undefined, "the namespace");
    },
  },
  {
    name: "50,000 ids of concurrent callers are distinct",
    async run(context) {
      const store = await context.open();
      const ids = await store.snowflakeIds({ namespace: "events", limit: 1 });
      const calls = Array.from({ length: 10 }, () => ids.nextMany(5_000));
      const made = await Promise.all(calls);
      for (const one of made) checkRising(one);
      checkDistinct(made.flat(), 50_000);
      checkInside(made.flat(), await rowOf(store, ids.hold.lease), snowflakeLayout);
      await ids.close();
    },
  },
];
