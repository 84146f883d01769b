import { LeaseLostError, type LeaseLostReason, StoreError } from "../../../core/errors.ts";
import type { HoldOptions } from "../../../core/slot/slot_arguments.ts";
import type { SlotHold } from "../../../core/slot/slot_hold.ts";
import { check, checkEqual, checkRejects } from "../check.ts";
import { StagedError } from "../clients.ts";
import type { TckCase } from "../context.ts";
import { expire, onMachine, rowOf } from "./world.ts";

/** Renewed every 10 s, trusted for 27 s, a renewal may take 5 s. */
const terms: HoldOptions = { namespace: "workers", limit: 1 };
const everyMs = 10_000;
const trustMs = 27_000;

/** However far ahead a window begins, the slot can be taken. */
const anyAhead = { maxAheadMs: 172_800_000 };

/** Fails unless the lease is lost for that reason. */
function checkLost({ held, signal }: SlotHold, reason: LeaseLostReason): void {
  checkEqual([held, signal.aborted], [false, true], "it is lost");
  check(signal.reason instanceof LeaseLostError, "the signal's reason is a LeaseLostError");
  checkEqual(signal.reason.reason, reason, "why it is lost");
}

/** A lease that is kept renewed. */
export const holdCases: readonly TckCase[] = [
  {
    name: "a hold renews its lease by itself, every renewEveryMs, and the row lasts longer",
    run: onMachine(async (world) => {
      const store = await world.open();
      const hold = await store.slots.hold(terms);
      const before = await rowOf(store, hold.lease);
      await world.pass(everyMs - 1);
      checkEqual(world.count("slot.renew"), 0, "the renewals so far");
      await world.pass(1 + 4 * everyMs);
      checkEqual([world.told("renew").length, hold.held], [5, true], "the renewals");
      checkEqual(world.runtime.referenced, 0, "the timers that keep the process alive");
      const after = await rowOf(store, hold.lease);
      checkEqual([after.state, after.fence, after.ownerKey], ["held", 1, hold.lease.ownerKey]);
      check(after.expiresAtMs >= before.expiresAtMs, "the expiry rises");
      check(after.ceilingMs >= hold.lease.ceilingMs, "the ceiling is not above the row's");
    }),
  },
  {
    name: "every hold of a store is renewed, whatever its namespace and slot",
    run: onMachine(async (world) => {
      const { slots } = await world.open();
      const holds: SlotHold[] = [];
      for (const namespace of ["a", "A", "b"]) {
        for (let count = 0; count < 2; count++) {
          holds.push(await slots.hold({ namespace, limit: 2 }));
        }
      }
      await world.pass(3 * everyMs);
      const renewed = holds.map(({ lease }) =>
        world.told("renew").filter(({ namespace, slot }) =>
          namespace === lease.namespace && slot === lease.slot
        ).length
      );
      checkEqual(renewed, [3, 3, 3, 3, 3, 3], "the renewals of each");
      check(holds.every(({ held }) => held), "all are held");
    }),
  },
  {
    name: "a hold whose event loop was blocked too long is lost at once, and frees its slot",
    run: onMachine(async (world) => {
      const store = await world.open();
      const hold = await store.slots.hold(terms);
      world.runtime.block(trustMs);
      checkLost(hold, "expired");
      await checkRejects(hold.renew(), LeaseLostError);
      await world.pass(60_000);
      checkEqual(world.count("slot.renew"), 0, "the renewals");
      checkEqual((await rowOf(store, hold.lease)).state, "held");
      await hold.release();
      checkEqual((await rowOf(store, hold.lease)).state, "free");
    }),
  },
  {
    name: "a machine that slept holds its lease again once a renewal has succeeded",
    run: onMachine(async (world, context) => {
      const hold = await (await world.open()).slots.hold(terms);
      await expire(context, hold.lease);
      world.runtime.sleep(trustMs);
      checkEqual([hold.held, hold.held], [false, false], "before the renewal");
      await world.settle();
      checkEqual([hold.held, world.count("slot.renew")], [true, 1], "after the renewal");
      check(!hold.signal.aborted, "it was never lost");
    }),
  },
  {
    name:
      "a machine that slept while another took its slot has lost it, and leaves it to the other",
    run: onMachine(async (world, context) => {
      const store = await world.open();
      const hold = await store.slots.hold(terms);
      await expire(context, hold.lease);
      world.runtime.sleep(40_000);
      const other = await (await context.open()).slots.hold({ ...terms, ...anyAhead });
      checkEqual(hold.held, false);
      await world.settle();
      checkLost(hold, "replaced");
      const { namespace, slot, fence } = hold.lease;
      checkEqual(
        world.told("lost"),
        [{ type: "lost", namespace, slot, fence, reason: "replaced" }],
      );
      await hold.release();
      const row = await rowOf(store, other.lease);
      checkEqual([row.state, row.fence, row.ownerKey], ["held", fence + 1, other.lease.ownerKey]);
      check(other.lease.floorMs > hold.lease.ceilingMs, "the windows do not overlap");
      await other.release();
    }),
  },
  {
    name: "a renewal whose answer is lost is repeated, and the lease survives",
    run: onMachine(async (world) => {
      const store = await world.open();
      const hold = await store.slots.hold(terms);
      let lost = 0;
      world.answer(async ({ send }) => {
        const result = await send();
        if (++lost % 3 !== 0) throw new StagedError();
        return result;
      }, "slot.renew");
      await world.pass(10 * everyMs);
      check(hold.held, "it is held");
      check(world.told("renewFailed").length >= 10, "answers were lost");
      const row = await rowOf(store, hold.lease);
      checkEqual([row.state, row.fence], ["held", 1]);
      check(hold.lease.ceilingMs <= row.ceilingMs, "the ceiling is not above the row's");
    }),
  },
  {
    name: "a hold whose acquire was answered by nothing is found, trusted and renewed at once",
    run: onMachine(async (world) => {
      const store = await world.open();
      await (await store.slots.hold({ ...terms, stamps: false })).release();
      let lost = 0;
      world.answer(async ({ send }) => {
        const result = await send();
        if (lost++ === 0) throw new StagedError();
        return result;
      }, "slot.acquire");
      const hold = await store.slots.hold(terms);
      checkEqual([hold.lease.fence, hold.held], [2, true], "the one that was written");
      await world.pass(1);
      checkEqual([world.told("renew").length, hold.held], [1, true], "the renewals");
      checkEqual((await rowOf(store, hold.lease)).fence, 2);
    }),
  },
  {
    name: "a database that is away for less than the trust costs no lease, for longer it does",
    run: onMachine(async (world) => {
      const store = await world.open();
      const hold = await store.slots.hold(terms);
      world.cut();
      await world.pass(trustMs - 1_000);
      check(hold.held, "it is held until then");
      world.mend();
      await world.pass(everyMs);
      check(hold.held, "it is held again");
      world.cut();
      await world.pass(trustMs);
      checkLost(hold, "expired");
      world.mend();
      await world.pass(60_000);
      checkLost(hold, "expired");
      checkEqual((await rowOf(store, hold.lease)).fence, 1, "it was not acquired again");
    }),
  },
  {
    name: "a renewal that is answered late stretches nothing",
    run: onMachine(async (world) => {
      const hold = await (await world.open()).slots.hold(terms);
      world.answer(async ({ send }) => {
        const result = await send();
        await world.wait(4_000);
        return result;
      }, "slot.renew");
      await world.pass(everyMs + 4_000);
      checkEqual(world.told("renew").length, 1, "the renewals");
      world.cut();
      await world.pass(trustMs - 4_000 - 1);
      check(hold.held, "it is held as long as it is trusted");
      await world.pass(1);
      checkLost(hold, "expired");
    }),
  },
  {
    name: "without a background a lease is renewed by hand only",
    run: onMachine(async (world) => {
      const hold = await (await world.open()).slots.hold({ ...terms, background: false });
      await world.pass(trustMs - 1);
      checkEqual([world.count("slot.renew"), hold.held], [0, true]);
      await Promise.all([hold.renew(), hold.renew()]);
      await world.pass(trustMs - 1);
      checkEqual([world.told("renew").length, hold.held], [1, true]);
      await world.pass(1);
      checkLost(hold, "expired");
    }),
  },
  {
    name: "a server that has become read-only takes the lease away",
    run: onMachine(async (world) => {
      const hold = await (await world.open()).slots.hold(terms);
      world.answer(() => Promise.reject(new StagedError("readOnly")), "slot.renew");
      await world.pass(everyMs);
      checkLost(hold, "readOnly");
    }),
  },
  {
    name: "the repeat of a release whose answer was lost changes nothing, and succeeds",
    run: onMachine(async (world) => {
      const store = await world.open();
      const hold = await store.slots.hold(terms);
      const lastUsedMs = hold.lease.floorMs + 5;
      let lost = 0;
      world.answer(async ({ send }) => {
        const result = await send();
        if (lost++ === 0) throw new StagedError();
        return result;
      }, "slot.release");
      await checkRejects(hold.release({ lastUsedMs }), StoreError);
      checkEqual(world.told("releaseFailed").length, 1);
      const row = await rowOf(store, hold.lease);
      checkEqual([row.state, row.nextFloorMs], ["free", lastUsedMs + 1]);
      await hold.release({ lastUsedMs: hold.lease.ceilingMs });
      checkEqual(await rowOf(store, hold.lease), row);
      checkLost(hold, "released");
    }),
  },
  {
    name: "a hold that stamps nothing gives its whole window back, as often as it is taken",
    run: onMachine(async (world) => {
      const store = await world.open();
      for (let fence = 1; fence <= 5; fence++) {
        const hold = await store.slots.hold({ ...terms, stamps: false });
        checkEqual([hold.lease.fence, hold.lease.floorMs], [fence, 0]);
        await hold.renew();
        await hold.release();
        checkEqual((await rowOf(store, hold.lease)).nextFloorMs, 0, "the next floor");
      }
    }),
  },
  {
    name: "a store that closes releases its holds, and leaves those of others",
    run: onMachine(async (world, context) => {
      const other = await context.open();
      const kept = await other.slots.hold({ namespace: "workers", limit: 4 });
      const store = await world.open();
      const holds: SlotHold[] = [];
      for (let count = 0; count < 3; count++) {
        holds.push(await store.slots.hold({ namespace: "workers", limit: 4 }));
      }
      await store.close();
      for (const hold of holds) checkLost(hold, "released");
      const state = await other.slots.inspect("workers");
      checkEqual(
        state?.slots.filter((row) => row.state !== "free").map(({ slot }) => slot),
        [kept.lease.slot],
        "the slots that are held",
      );
      check(kept.held, "the other's is held");
      await kept.release();
    }),
  },
  {
    name: "what happens to a hold is told, with its lease",
    run: onMachine(async (world, context) => {
      const store = await world.open();
      const hold = await store.slots.hold({ ...terms, background: false });
      await hold.renew();
      await hold.release({ lastUsedMs: hold.lease.floorMs });
      const next = await store.slots.hold({ ...terms, background: false });
      await expire(context, next.lease);
      const other = await context.open();
      const taken = await other.slots.acquire({ ...terms, ...anyAhead });
      await checkRejects(next.renew(), LeaseLostError);
      await other.slots.release(taken);
      checkEqual(
        world.events.flatMap((event) =>
          "fence" in event ? [[event.type, event.namespace, event.slot, event.fence]] : []
        ),
        [
          ["acquire", "workers", 0, 1],
          ["renew", "workers", 0, 1],
          ["released", "workers", 0, 1],
          ["acquire", "workers", 0, 2],
          ["lost", "workers", 0, 2],
        ],
      );
    }),
  },
];
