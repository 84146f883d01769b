import { LeaseLostError, SlotsExhaustedError } from "../../../core/errors.ts";
import type { SlotLeaseData } from "../../../core/slot/slot_lease.ts";
import { check, checkEqual, checkRejects } from "../check.ts";
import { Gate } from "../clients.ts";
import type { TckCase, TckContext } from "../context.ts";
import { anyAhead, forged, namespace, Rig, terms, toleranceMs, ttlMs } from "./common.ts";

/** Fails unless a lease can neither be renewed, released nor asserted, and its row stays as it is. */
async function checkPowerless(
  context: TckContext,
  { rig, lease, what }: { rig: Rig; lease: SlotLeaseData; what: string },
): Promise<void> {
  const before = await rig.rows();
  rig.clock.advance(1);
  const error = await checkRejects(rig.slots.renew(lease), LeaseLostError);
  checkEqual(
    [error.namespace, error.slot, error.fence, error.reason],
    [lease.namespace, lease.slot, lease.fence, "replaced"],
    what,
  );
  await rig.slots.release(lease);
  await rig.slots.release(lease, { lastUsedMs: lease.floorMs });
  checkEqual(await rig.rows(), before, `${what}: the rows`);
  const transaction = await context.begin();
  await checkRejects(rig.slots.assertHeld(lease, transaction.handle), LeaseLostError);
  await transaction.rollback();
  checkEqual(await rig.rows(), before, `${what}: the rows`);
}

/** Holds the next statement of a name back until the gate opens. */
function holdBack(rig: Rig, name: string): Gate {
  const gate = new Gate();
  rig.client.interfere = async (sent) => {
    if (sent.name !== name) return await sent.send();
    rig.client.interfere = ({ send }) => send();
    await gate.pass();
    return await sent.send();
  };
  return gate;
}

const plans = ["statement", "transaction"] as const;

/** What tells a holder from every other. */
export const fenceCases: readonly TckCase[] = [
  {
    name: "every acquire of a slot raises its fence by one; renewals and releases do not",
    async run(context) {
      const rig = await Rig.open(context);
      const options = terms({ limit: 1, maxAheadMs: anyAhead });
      const fences: number[] = [];
      const note = async (lease: SlotLeaseData) => {
        const { fence } = await rig.row(lease);
        checkEqual(fence, lease.fence, "the fence of the row");
        fences.push(fence);
      };
      for (let turn = 0; turn < 3; turn++) {
        const lease = await rig.slots.acquire(options);
        await note(lease);
        await rig.slots.renew(lease);
        await note(lease);
        await rig.slots.release(lease);
        await note(lease);
      }
      const own = terms({ ...options, ownerKey: "one" });
      await note(await rig.slots.acquire(own));
      await note(await rig.slots.acquire(own));
      rig.clock.advance(ttlMs);
      await note(await rig.slots.acquire(options));
      checkEqual(fences, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 5, 6]);
    },
  },
  {
    name: "the incarnation differs in each acquire, also of one owner key",
    async run(context) {
      const rig = await Rig.open(context);
      const incarnations = new Set<string>();
      for (let turn = 0; turn < 5; turn++) {
        const lease = await rig.slots.acquire(terms({ ownerKey: "one", maxAheadMs: anyAhead }));
        check(/^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/.test(lease.incarnation), "it is a UUID");
        checkEqual((await rig.row(lease)).incarnation, lease.incarnation);
        incarnations.add(lease.incarnation);
      }
      checkEqual(incarnations.size, 5);
    },
  },
  {
    name: "who has another fence or incarnation than the row cannot renew, release or assert",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms({ maxAheadMs: anyAhead }));
      const other = await rig.slots.acquire(terms({ maxAheadMs: anyAhead }));
      const wrong: Readonly<Record<string, Partial<SlotLeaseData>>> = {
        "a later fence": { fence: lease.fence + 1 },
        "another incarnation": { incarnation: crypto.randomUUID() },
        "another's incarnation": { incarnation: other.incarnation },
        "another's slot": { slot: other.slot },
        "a free slot": { slot: [0, 1, 2].find((slot) => ![lease.slot, other.slot].includes(slot)) },
        "a slot that is none": { slot: 4 },
        "another namespace": { namespace: "others" },
      };
      for (const [what, part] of Object.entries(wrong)) {
        await checkPowerless(context, { rig, lease: forged(lease, part), what });
      }
      await rig.slots.renew(lease);
      await rig.checkBelieved(lease);
    },
  },
  {
    name: "an owner key alone is nothing: an old term of the same owner cannot touch the new one",
    async run(context) {
      const rig = await Rig.open(context);
      const options = terms({ limit: 1, ownerKey: "one", maxAheadMs: anyAhead });
      const old = await rig.slots.acquire(options);
      const renewed = await rig.slots.acquire(options);
      await checkPowerless(context, { rig, lease: old, what: "an old term" });
      const mixed = forged(old, { fence: renewed.fence });
      await checkPowerless(context, { rig, lease: mixed, what: "its incarnation, the new fence" });
      const stolen = forged(old, { incarnation: renewed.incarnation });
      await checkPowerless(context, { rig, lease: stolen, what: "its fence, the new incarnation" });
      await rig.slots.renew(renewed);
    },
  },
  {
    name: "a holder whose slot was taken over, or that has released it, can do nothing more",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms({ limit: 1 }));
      rig.clock.advance(ttlMs + toleranceMs);
      const next = await rig.slots.acquire(terms({ limit: 1 }));
      await checkPowerless(context, { rig, lease, what: "taken over" });
      await rig.slots.release(next);
      await checkPowerless(context, { rig, lease, what: "taken over and released" });
      await checkPowerless(context, { rig, lease: next, what: "released" });
    },
  },
  {
    name: "a lease that has expired can be renewed as long as nobody took its slot",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms({ limit: 1 }));
      rig.clock.advance(10 * ttlMs);
      await rig.slots.renew(lease);
      const row = await rig.checkBelieved(lease);
      checkEqual([row.expiresAtMs, row.fence], [rig.clock.storeMs + ttlMs, 1]);
      await checkRejects(rig.slots.acquire(terms({ limit: 1 })), SlotsExhaustedError);
    },
  },
  {
    name: "a renewal that is delivered after a takeover changes no row",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms({ limit: 1 }));
      const gate = holdBack(rig, "slot.renew");
      const late = checkRejects(rig.slots.renew(lease), LeaseLostError);
      await gate.arrival();
      rig.clock.storeMs += ttlMs + toleranceMs;
      const other = await (await rig.another()).acquire(terms({ limit: 1 }));
      const row = await rig.checkBelieved(other);
      const believedMs = lease.ceilingMs;
      gate.open();
      await late;
      checkEqual(await rig.row(lease), row);
      checkEqual(lease.ceilingMs, believedMs, "the ceiling of the lost lease");
    },
  },
  {
    name: "a release that is delivered after a takeover changes no row",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms({ limit: 1, ownerKey: "one" }));
      const gate = holdBack(rig, "slot.release");
      const late = rig.slots.release(lease, { lastUsedMs: lease.floorMs });
      await gate.arrival();
      const options = terms({ limit: 1, ownerKey: "one", maxAheadMs: anyAhead });
      const other = await (await rig.another()).acquire(options);
      const row = await rig.checkBelieved(other);
      gate.open();
      await late;
      checkEqual(await rig.row(lease), row);
    },
  },
  {
    name: "an acquire that is delivered after another took the slot changes no row",
    async run(context) {
      for (const fetchPlan of plans) {
        const rig = await Rig.open(context, { fetchPlan });
        const options = terms({ namespace: fetchPlan, limit: 1 });
        await rig.slots.release(await rig.slots.acquire(options), { lastUsedMs: 0 });
        const gate = holdBack(rig, "slot.acquire");
        const late = checkRejects(rig.slots.acquire(options), SlotsExhaustedError);
        await gate.arrival();
        const other = await (await rig.another()).acquire(options);
        const row = await rig.checkBelieved(other);
        gate.open();
        await late;
        checkEqual(await rig.row(other), row, fetchPlan);
      }
    },
  },
  {
    name: "an acquire that is delivered after another took and released the slot begins behind it",
    async run(context) {
      for (const fetchPlan of plans) {
        for (const lastUsed of ["nothing", "everything"] as const) {
          const rig = await Rig.open(context, { fetchPlan });
          const options = terms({ namespace: `${fetchPlan} ${lastUsed}`, limit: 1 });
          await rig.slots.release(await rig.slots.acquire(options), { lastUsedMs: 5_000 });
          const gate = holdBack(rig, "slot.acquire");
          const late = rig.slots.acquire({ ...options, maxAheadMs: anyAhead });
          await gate.arrival();
          const slots = await rig.another();
          const other = await slots.acquire(options);
          const lastUsedMs = lastUsed === "nothing" ? other.floorMs - 1 : other.ceilingMs;
          await slots.release(other, { lastUsedMs });
          gate.open();
          const lease = await late;
          await rig.checkBelieved(lease);
          checkEqual([lease.fence, lease.floorMs], [other.fence + 1, lastUsedMs + 1]);
        }
      }
    },
  },
  {
    name: "an acquire that is delivered after the holder renewed and released begins behind it",
    async run(context) {
      for (const fetchPlan of plans) {
        const rig = await Rig.open(context, { fetchPlan });
        const options = terms({ namespace: fetchPlan, limit: 1, maxAheadMs: anyAhead });
        const slots = await rig.another();
        const holder = await slots.acquire(options);
        rig.clock.advance(ttlMs);
        const gate = holdBack(rig, "slot.acquire");
        const late = rig.slots.acquire(options);
        await gate.arrival();
        await slots.renew(holder);
        await slots.release(holder);
        gate.open();
        const lease = await late;
        await rig.checkBelieved(lease);
        check(lease.floorMs > holder.ceilingMs, `${lease.floorMs} lies above ${holder.ceilingMs}`);
      }
    },
  },
  {
    name: "an acquire that another was faster than takes the next slot",
    async run(context) {
      for (const fetchPlan of plans) {
        const rig = await Rig.open(context, { fetchPlan });
        const options = terms({ namespace: fetchPlan, limit: 2, preferredSlot: 0 });
        await rig.slots.release(await rig.slots.acquire(options), { lastUsedMs: 0 });
        const gate = holdBack(rig, "slot.acquire");
        const late = rig.slots.acquire(options);
        await gate.arrival();
        const other = await (await rig.another()).acquire(options);
        gate.open();
        const lease = await late;
        checkEqual([other.slot, lease.slot], [0, 1], fetchPlan);
        await rig.checkBelieved(lease);
        await rig.checkBelieved(other);
      }
    },
  },
  {
    name: "a slot that is held, or whose holder renewed it in time, is not taken over",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms({ limit: 1 }));
      const refuse = async () => {
        await checkRejects(rig.slots.acquire(terms({ limit: 1 })), SlotsExhaustedError);
        await rig.checkBelieved(lease);
      };
      rig.clock.advance(ttlMs - 1);
      await refuse();
      await rig.slots.renew(lease);
      rig.clock.advance(ttlMs - 1);
      await refuse();
      rig.clock.advance(1 + toleranceMs);
      const other = await rig.slots.acquire(terms({ limit: 1 }));
      checkEqual([other.slot, other.fence], [0, 2]);
      check(other.floorMs > lease.ceilingMs, "its window begins behind the holder's");
      checkEqual((await rig.owned(namespace)).length, 1);
    },
  },
];
