import { LeaseLostError, SlotsExhaustedError } from "../../../core/errors.ts";
import type { SlotLease } from "../../../core/slot/slot_lease.ts";
import type { SlotStore } from "../../../core/slot/slot_store.ts";
import { check, checkEqual } from "../check.ts";
import type { TckCase, TckContext } from "../context.ts";
import { anyAhead, namespace, Rig, terms, ttlMs } from "./common.ts";

/** A rig with real timers and a clock that stands still, and the slots of several stores on it. */
async function openMany(
  context: TckContext,
  count: number,
): Promise<{ rig: Rig; slotsOf: (caller: number) => SlotStore }> {
  const rig = await Rig.open(context, { runtime: undefined, timeoutMs: 120_000 });
  const stores = [rig.slots];
  while (stores.length < count) {
    const fetchPlan = stores.length % 2 === 0 ? "statement" : "transaction";
    stores.push(await rig.another({ fetchPlan }));
  }
  return { rig, slotsOf: (caller) => stores[caller % count] ?? rig.slots };
}

/** Databases for development, on which many callers at once are slow. */
const small: readonly string[] = ["h2", "sqlserver"];

/** Many callers at once. */
export const slotConcurrencyCases: readonly TckCase[] = [
  {
    name:
      "50 callers at once get the 8 slots of a namespace once each, and 42 hear when one is free",
    async run(context) {
      const { rig, slotsOf } = await openMany(context, 3);
      const results = await Promise.allSettled(
        Array.from(
          { length: 50 },
          (_, caller) => slotsOf(caller).acquire(terms({ limit: 8, maxAheadMs: anyAhead })),
        ),
      );
      const leases = results.flatMap((one) => one.status === "fulfilled" ? [one.value] : []);
      checkEqual(leases.map(({ slot }) => slot).sort(), [...Array(8).keys()], "the slots");
      for (const lease of leases) {
        const row = await rig.checkBelieved(lease);
        checkEqual(row.fence, 1);
      }
      for (const result of results) {
        if (result.status === "fulfilled") continue;
        const { reason } = result;
        check(reason instanceof SlotsExhaustedError, `${reason}`);
        checkEqual(
          [reason.limit, reason.freeInMs, reason.nextFreeAt.getTime()],
          [8, ttlMs, rig.clock.storeMs + ttlMs],
        );
      }
    },
  },
  {
    name: "as many callers as slots get a slot each, whatever their number",
    async run(context) {
      const limit = small.includes(context.dialect.name) ? 100 : 1_000;
      const { rig, slotsOf } = await openMany(context, 4);
      const leases = await Promise.all(
        Array.from({ length: limit }, (_, caller) => slotsOf(caller).acquire(terms({ limit }))),
      );
      checkEqual(new Set(leases.map(({ slot }) => slot)).size, limit, "the slots");
      const rows = await rig.rows();
      for (const { slot, fence, incarnation, ceilingMs } of leases) {
        const row = rows[slot];
        checkEqual([row?.slot, row?.fence, row?.incarnation], [slot, fence, incarnation]);
        check(ceilingMs <= (row?.ceilingMs ?? 0), "the ceiling that is believed");
      }
    },
  },
  {
    name: "callers that acquire, renew and release at once never share a window",
    async run(context) {
      const { rig, slotsOf } = await openMany(context, 3);
      const used: { slot: number; fence: number; floorMs: number; lastMs: number }[] = [];
      const work = async (caller: number) => {
        const slots = slotsOf(caller);
        for (let turn = 0; turn < 6; turn++) {
          let lease: SlotLease;
          try {
            lease = await slots.acquire(terms({ limit: 4, maxAheadMs: anyAhead }));
          } catch (error) {
            if (!(error instanceof SlotsExhaustedError)) throw error;
            rig.clock.storeMs += 1_000;
            continue;
          }
          if ((caller + turn) % 3 === 0) {
            await slots.renew(lease).catch((error) => {
              // The clock is moved by others, so it may have expired.
              if (!(error instanceof LeaseLostError)) throw error;
            });
          }
          const { slot, fence, floorMs, ceilingMs } = lease;
          const lastMs = (caller + turn) % 2 === 0 ? floorMs + 10 : ceilingMs;
          used.push({ slot, fence, floorMs, lastMs });
          if ((caller + turn) % 4 !== 0) await slots.release(lease, { lastUsedMs: lastMs });
        }
      };
      await Promise.all(Array.from({ length: 12 }, (_, caller) => work(caller)));
      check(used.length >= 12, `${used.length} leases`);
      for (let slot = 0; slot < 4; slot++) {
        const windows = used.filter((one) => one.slot === slot).sort((a, b) => a.fence - b.fence);
        windows.reduce((before, { fence, floorMs, lastMs }) => {
          check(fence > before.fence, `fence ${fence} of slot ${slot} was given twice`);
          check(floorMs > before.lastMs, `slot ${slot}: ${floorMs} is not above ${before.lastMs}`);
          return { fence, lastMs };
        }, { fence: 0, lastMs: -1 });
      }
    },
  },
  {
    name: "of acquires of one owner key at once at most one lease of a slot can be renewed",
    async run(context) {
      const { rig, slotsOf } = await openMany(context, 3);
      const options = terms({ limit: 3, ownerKey: "one", maxAheadMs: anyAhead });
      const leases = await Promise.all(
        Array.from({ length: 8 }, (_, caller) => slotsOf(caller).acquire(options)),
      );
      const keys = leases.map(({ slot, fence }) => `${slot} ${fence}`);
      checkEqual(new Set(keys).size, 8, "the fences");
      const renewed = await Promise.allSettled(leases.map((lease) => rig.slots.renew(lease)));
      const alive = leases.filter((_, index) => renewed[index]?.status === "fulfilled");
      checkEqual(alive.length, new Set(alive.map(({ slot }) => slot)).size, "one of each slot");
      checkEqual(alive.length, (await rig.owned()).length, "the slots that have an owner");
      checkEqual((await rig.slots.inspect(namespace))?.slots.length, 3);
    },
  },
];
