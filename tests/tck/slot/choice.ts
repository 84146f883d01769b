import { SlotsExhaustedError } from "../../../core/errors.ts";
import type { AcquireOptions } from "../../../core/slot/slot_arguments.ts";
import { check, checkEqual, checkRejects } from "../check.ts";
import type { TckCase } from "../context.ts";
import { anyAhead, Rig, terms, toleranceMs, ttlMs } from "./common.ts";

const plans = ["statement", "transaction"] as const;

/** Fails unless the namespace is exhausted; checks when the next slot comes free, and that it does. */
async function checkExhausted(
  rig: Rig,
  options: AcquireOptions,
  { freeInMs }: { freeInMs: number },
): Promise<void> {
  const refuse = async (inMs: number) => {
    const error = await checkRejects(rig.slots.acquire(options), SlotsExhaustedError);
    checkEqual(
      [error.namespace, error.limit, error.freeInMs, error.nextFreeAt.getTime()],
      [options.namespace, options.limit, inMs, rig.clock.storeMs + inMs],
    );
    check(error.message.includes(`in ${inMs} ms`), error.message);
    checkEqual(rig.client.names.at(-1), "slot.candidates", "what was sent last");
  };
  await refuse(freeInMs);
  rig.clock.advance(freeInMs - 1);
  await refuse(1);
  rig.clock.advance(1);
  await rig.checkBelieved(await rig.slots.acquire(options));
}

/** Which slot an acquire gives. */
export const choiceCases: readonly TckCase[] = [
  {
    name:
      "an owner key that returns takes its own slot: before its lease expired, after, and released",
    async run(context) {
      for (const fetchPlan of plans) {
        const rig = await Rig.open(context, { fetchPlan });
        const options = terms({ namespace: fetchPlan, limit: 64, maxAheadMs: anyAhead });
        const own = { ...options, ownerKey: "one" };
        const first = await rig.slots.acquire(own);
        await rig.slots.acquire(options);
        const before = await rig.slots.acquire(own);
        checkEqual([before.slot, before.fence], [first.slot, 2], "before it expired");
        rig.clock.advance(10 * ttlMs);
        const after = await rig.slots.acquire(own);
        checkEqual([after.slot, after.fence], [first.slot, 3], "after it expired");
        await rig.slots.release(after);
        const preferredSlot = (first.slot + 1) % 64;
        await rig.slots.release(await rig.slots.acquire({ ...options, preferredSlot }));
        const released = await rig.slots.acquire(own);
        checkEqual([released.slot, released.fence], [first.slot, 4], "after it was released");
        await rig.checkBelieved(released);
      }
    },
  },
  {
    name: "an owner key that returns, and whose slot was taken, takes another",
    async run(context) {
      const rig = await Rig.open(context);
      const options = terms({ limit: 2, maxAheadMs: anyAhead });
      const first = await rig.slots.acquire({ ...options, ownerKey: "one" });
      await rig.slots.release(first);
      const other = await rig.slots.acquire({ ...options, preferredSlot: first.slot });
      const again = await rig.slots.acquire({ ...options, ownerKey: "one" });
      checkEqual([other.slot, again.slot], [first.slot, 1 - first.slot]);
    },
  },
  {
    name: "the preferred slot is taken if it is free, else another",
    async run(context) {
      for (const fetchPlan of plans) {
        const rig = await Rig.open(context, { fetchPlan });
        const options = terms({ namespace: fetchPlan, limit: 64, preferredSlot: 37 });
        const lease = await rig.slots.acquire(options);
        checkEqual(lease.slot, 37);
        const other = await rig.slots.acquire(options);
        check(other.slot !== 37, "it is held");
        rig.clock.advance(ttlMs + toleranceMs);
        checkEqual((await rig.slots.acquire(options)).slot, 37, "it has expired");
        const first = await rig.slots.acquire({ ...options, preferredSlot: 0 });
        checkEqual(first.slot, 0, "the first slot can be preferred");
      }
    },
  },
  {
    name: "the own slot comes before the preferred one, that before the one last held",
    async run(context) {
      for (const fetchPlan of plans) {
        const rig = await Rig.open(context, { fetchPlan });
        const options = terms({
          namespace: fetchPlan,
          limit: 64,
          ownerKey: "one",
          maxAheadMs: anyAhead,
        });
        const first = await rig.slots.acquire({ ...options, preferredSlot: 5 });
        const own = await rig.slots.acquire({ ...options, preferredSlot: 6 });
        checkEqual([first.slot, own.slot], [5, 5], "the own slot");
        await rig.slots.release(own);
        const preferred = await rig.slots.acquire({ ...options, preferredSlot: 7 });
        checkEqual(preferred.slot, 7, "the preferred slot");
      }
    },
  },
  {
    name: "a herd spreads: 200 acquires in a namespace of 256 take few statements each",
    async run(context) {
      const rig = await Rig.open(context, { runtime: undefined, timeoutMs: 60_000 });
      const options = terms({ limit: 256 });
      await rig.slots.acquire(options);
      rig.client.sent.length = 0;
      const leases = await Promise.all(
        Array.from({ length: 200 }, () => rig.slots.acquire(options)),
      );
      checkEqual(new Set(leases.map(({ slot }) => slot)).size, 200, "the slots");
      const { length } = rig.client.sent;
      check(length <= 200 * 5, `200 acquires took ${length} statements`);
    },
  },
  {
    name:
      "a slot whose window would begin more than maxAheadMs ahead is not taken, until it is not",
    async run(context) {
      for (const fetchPlan of plans) {
        const rig = await Rig.open(context, { fetchPlan });
        const options = terms({ namespace: fetchPlan, limit: 1, maxAheadMs: 5_000 });
        const setNextFloor = (ms: number) => rig.setNextFloor(0, ms, fetchPlan);
        await rig.slots.release(await rig.slots.acquire(options), { lastUsedMs: 0 });
        await setNextFloor(rig.clock.storeMs + 5_001);
        await checkRejects(rig.slots.acquire(options), SlotsExhaustedError);
        await setNextFloor(rig.clock.storeMs + 5_000);
        const lease = await rig.slots.acquire(options);
        checkEqual(lease.floorMs, rig.clock.storeMs + 5_000, fetchPlan);
        await rig.slots.release(lease, { lastUsedMs: lease.floorMs - 1 });
        await setNextFloor(rig.clock.storeMs + 1);
        await checkRejects(rig.slots.acquire({ ...options, maxAheadMs: 0 }), SlotsExhaustedError);
        await setNextFloor(rig.clock.storeMs);
        checkEqual(
          (await rig.slots.acquire({ ...options, maxAheadMs: 0 })).floorMs,
          rig.clock.storeMs,
        );
      }
    },
  },
  {
    name: "unless maxAheadMs is given it is the ttl and the tolerance",
    async run(context) {
      const rig = await Rig.open(context);
      const options = terms({ limit: 1 });
      await rig.slots.release(await rig.slots.acquire(options), { lastUsedMs: 0 });
      await rig.setNextFloor(0, rig.clock.storeMs + ttlMs + toleranceMs + 1);
      await checkRejects(rig.slots.acquire(options), SlotsExhaustedError);
      await rig.setNextFloor(0, rig.clock.storeMs + ttlMs + toleranceMs);
      await rig.slots.acquire(options);
    },
  },
  {
    name: "an own slot whose window would begin too far ahead is not taken either",
    async run(context) {
      const rig = await Rig.open(context);
      const options = terms({ limit: 1, ownerKey: "one" });
      await rig.slots.acquire(options);
      await rig.setNextFloor(0, rig.clock.storeMs + 100_000);
      await checkExhausted(rig, options, { freeInMs: 100_000 - ttlMs - toleranceMs });
    },
  },
  {
    name: "an exhausted namespace tells when the next slot comes free: held, by its expiry",
    async run(context) {
      const rig = await Rig.open(context);
      const options = terms({ limit: 3, maxAheadMs: anyAhead });
      for (const aheadMs of [20_000, 5_000, 0]) {
        await rig.slots.acquire({ ...options, ttlMs: ttlMs + aheadMs });
        rig.clock.advance(1_000);
      }
      await checkExhausted(rig, options, { freeInMs: ttlMs - 1_000 });
    },
  },
  {
    name: "an exhausted namespace tells when the next slot comes free: free, by its window",
    async run(context) {
      const rig = await Rig.open(context);
      const options = terms({ limit: 2, maxAheadMs: 10_000 });
      await rig.slots.acquire(options);
      const released = await rig.slots.acquire(options);
      await rig.slots.release(released);
      // Its window begins behind the ceiling of the one before.
      await checkExhausted(rig, options, { freeInMs: ttlMs + toleranceMs + 1 - 10_000 });
    },
  },
  {
    name: "a held slot comes free no sooner than its window allows",
    async run(context) {
      const rig = await Rig.open(context);
      const options = terms({ limit: 1, maxAheadMs: 0 });
      await rig.slots.acquire(options);
      await checkExhausted(rig, options, { freeInMs: ttlMs + toleranceMs + 1 });
    },
  },
  {
    name: "a crash loop never drifts further ahead of the store clock than maxAheadMs",
    async run(context) {
      const rig = await Rig.open(context);
      const options = terms({ limit: 1, ownerKey: "one", toleranceMs: 20_000 });
      const maxAheadMs = ttlMs + 20_000;
      let [given, refused, before] = [0, 0, -1];
      for (const untilMs = rig.clock.storeMs + 3_600_000; rig.clock.storeMs < untilMs;) {
        try {
          const { floorMs, ceilingMs } = await rig.slots.acquire(options);
          given++;
          const aheadMs = floorMs - rig.clock.storeMs;
          check(aheadMs <= maxAheadMs, `a window begins ${aheadMs} ms ahead`);
          check(floorMs > before, "the windows do not overlap");
          before = ceilingMs;
          rig.clock.advance(1_000);
        } catch (error) {
          if (!(error instanceof SlotsExhaustedError)) throw error;
          refused++;
          check(error.freeInMs > 0 && error.freeInMs <= maxAheadMs, `${error.freeInMs} ms`);
          // Some come back every second, some when they were told.
          rig.clock.advance(refused % 8 < 2 ? 1_000 : error.freeInMs);
        }
      }
      check(given > 100 && refused > 100, `${given} were given, ${refused} refused`);
    },
  },
];
