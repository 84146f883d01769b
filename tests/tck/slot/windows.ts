import { SlotsExhaustedError } from "../../../core/errors.ts";
import { check, checkEqual } from "../check.ts";
import type { TckCase } from "../context.ts";
import { anyAhead, Rig, terms, toleranceMs, ttlMs } from "./common.ts";

interface Used {
  readonly floorMs: number;
  readonly lastMs: number;
}

/** Which milliseconds a holder may stamp. */
export const windowCases: readonly TckCase[] = [
  {
    name: "a window begins where the one before ended, though that lies ahead of the expiry",
    async run(context) {
      const rig = await Rig.open(context);
      const options = terms({ limit: 1, maxAheadMs: anyAhead });
      await rig.slots.release(await rig.slots.acquire(options));
      const floorMs = rig.clock.storeMs + 45_000;
      await rig.setNextFloor(0, floorMs);
      const lease = await rig.slots.acquire(options);
      const row = await rig.checkBelieved(lease);
      checkEqual(row, {
        ...row,
        expiresAtMs: rig.clock.storeMs + ttlMs,
        floorMs,
        ceilingMs: floorMs + toleranceMs,
        nextFloorMs: floorMs + toleranceMs + 1,
      });
      checkEqual([lease.floorMs, lease.ceilingMs], [floorMs, floorMs + toleranceMs]);
    },
  },
  {
    name: "a window without a tolerance ends with the lease",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms({ toleranceMs: 0 }));
      const row = await rig.checkBelieved(lease);
      checkEqual([row.ceilingMs, row.nextFloorMs], [row.expiresAtMs, row.expiresAtMs + 1]);
    },
  },
  {
    name: "a renewal raises the expiry, the ceiling and the next floor, and leaves the rest",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms());
      const before = await rig.row(lease);
      rig.clock.advance(10_000);
      const renewed = await rig.slots.renew(lease);
      check(renewed === lease, "it is the same lease");
      const { storeMs } = rig.clock;
      checkEqual(await rig.checkBelieved(lease), {
        ...before,
        expiresAtMs: storeMs + ttlMs,
        ceilingMs: storeMs + ttlMs + toleranceMs,
        nextFloorMs: storeMs + ttlMs + toleranceMs + 1,
      });
      checkEqual(lease.ceilingMs, storeMs + ttlMs + toleranceMs, "the ceiling that it believes");
    },
  },
  {
    name: "a renewal lowers nothing, though the store clock went back",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms());
      const before = await rig.row(lease);
      const believedMs = lease.ceilingMs;
      rig.clock.storeMs -= 3_600_000;
      await rig.slots.renew(lease);
      const after = await rig.checkBelieved(lease);
      for (const name of ["expiresAtMs", "ceilingMs", "nextFloorMs"] as const) {
        check(after[name] >= before[name], `${name} is ${after[name]}, it was ${before[name]}`);
      }
      check(lease.ceilingMs >= believedMs, "the ceiling that is believed");
    },
  },
  {
    name: "a renewal that is far into a window ahead of the clock keeps it",
    async run(context) {
      const rig = await Rig.open(context);
      const options = terms({ limit: 1, maxAheadMs: anyAhead });
      await rig.slots.release(await rig.slots.acquire(options));
      await rig.setNextFloor(0, rig.clock.storeMs + 3_600_000);
      const lease = await rig.slots.acquire(options);
      const before = await rig.row(lease);
      rig.clock.advance(5_000);
      await rig.slots.renew(lease);
      checkEqual(
        await rig.checkBelieved(lease),
        { ...before, expiresAtMs: rig.clock.storeMs + ttlMs },
      );
    },
  },
  {
    name: "a lease given as data is renewed into a new one",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms());
      const data = JSON.parse(JSON.stringify(lease));
      checkEqual(data, lease.toJSON(), "what is written down");
      rig.clock.advance(10_000);
      const renewed = await (await rig.another()).renew(data);
      check(renewed !== lease, "it is another object");
      await rig.checkBelieved(renewed);
      await rig.checkBelieved(lease);
      checkEqual(renewed.ceilingMs, rig.clock.storeMs + ttlMs + toleranceMs);
      checkEqual(lease.ceilingMs, rig.clock.storeMs - 10_000 + ttlMs + toleranceMs);
      await rig.slots.release(data);
      checkEqual(await rig.owned(), []);
    },
  },
  {
    name: "a release frees owner and incarnation, keeps the last owner, and leaves the rest",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms({ ownerKey: "one" }));
      const before = await rig.row(lease);
      rig.clock.advance(10_000);
      await rig.slots.release(lease);
      checkEqual(await rig.row(lease), {
        ...before,
        ownerKey: undefined,
        lastOwnerKey: "one",
        incarnation: undefined,
      });
    },
  },
  {
    name: "what was stamped last ends the window of a release: the next one begins behind it",
    async run(context) {
      const rig = await Rig.open(context);
      const options = terms({ limit: 1, ownerKey: "one", maxAheadMs: anyAhead });
      for (const place of ["floor - 1", "floor", "between", "ceiling"] as const) {
        const lease = await rig.slots.acquire(options);
        const { floorMs, ceilingMs } = lease;
        const lastUsedMs = {
          "floor - 1": floorMs - 1,
          floor: floorMs,
          between: ceilingMs - 1_000,
          ceiling: ceilingMs,
        }[place];
        if (lastUsedMs < 0) {
          // The slot was never used before.
          await rig.slots.release(lease, { lastUsedMs: ceilingMs });
          continue;
        }
        await rig.slots.release(lease, { lastUsedMs });
        checkEqual((await rig.row(lease)).nextFloorMs, lastUsedMs + 1, place);
        checkEqual((await rig.slots.acquire(options)).floorMs, lastUsedMs + 1, place);
      }
    },
  },
  {
    name: "a release that is repeated changes nothing more, whatever it says was stamped last",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms());
      const lastUsedMs = rig.clock.storeMs;
      await rig.slots.release(lease, { lastUsedMs });
      const released = await rig.row(lease);
      checkEqual(released.nextFloorMs, lastUsedMs + 1);
      await rig.slots.release(lease, { lastUsedMs });
      await rig.slots.release(lease, { lastUsedMs: lease.ceilingMs });
      await rig.slots.release(lease);
      checkEqual(await rig.row(lease), released);
    },
  },
  {
    name: "a release after another took the slot over changes nothing",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms({ limit: 1, ownerKey: "one" }));
      rig.clock.advance(ttlMs + toleranceMs);
      const other = await rig.slots.acquire(terms({ limit: 1, ownerKey: "two" }));
      const row = await rig.checkBelieved(other);
      await rig.slots.release(lease, { lastUsedMs: lease.floorMs });
      await rig.slots.release(lease);
      checkEqual(await rig.row(lease), row);
    },
  },
  {
    name: "the windows of successive holders do not overlap, whatever the clocks do",
    async run(context) {
      const rig = await Rig.open(context);
      const slots = [rig.slots, await rig.another({ fetchPlan: "transaction" })];
      const used: Used[] = [];
      const jumps = [0, 7_000, -20_000, 31_000, -3_600_000, 3_600_000, -86_400_000, 40_000, -1];
      for (let turn = 0; turn < 40; turn++) {
        rig.clock.storeMs += jumps[turn % jumps.length] ?? 0;
        rig.clock.hostMs += (turn * 977) % 5_000;
        const options = terms({ limit: 1, ownerKey: `${turn % 3}`, maxAheadMs: anyAhead });
        const acquire = () => (slots[turn % 2] ?? rig.slots).acquire(options);
        const lease = await acquire().catch((error) => {
          if (!(error instanceof SlotsExhaustedError)) throw error;
          rig.clock.storeMs += error.freeInMs;
          return acquire();
        });
        await rig.checkBelieved(lease);
        if (turn % 4 > 1) {
          rig.clock.storeMs += jumps[(turn * 5) % jumps.length] ?? 0;
          await rig.slots.renew(lease);
          await rig.checkBelieved(lease);
        }
        const { floorMs, ceilingMs } = lease;
        const lastMs = turn % 5 === 1 ? Math.floor((floorMs + ceilingMs) / 2) : ceilingMs;
        if (turn % 5 < 2) await rig.slots.release(lease, { lastUsedMs: lastMs });
        if (turn % 5 === 2) await rig.slots.release(lease);
        used.push({ floorMs, lastMs });
      }
      used.reduce((before, { floorMs, lastMs }) => {
        check(floorMs > before, `a window begins at ${floorMs}, the one before ended at ${before}`);
        return lastMs;
      }, -1);
    },
  },
];
