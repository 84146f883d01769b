import { LeaseLostError, StoreError } from "../../../core/errors.ts";
import type { SlotLease } from "../../../core/slot/slot_lease.ts";
import type { QueryResult } from "../../../core/sql/row.ts";
import { check, checkEqual, checkRejects } from "../check.ts";
import type { TckCase } from "../context.ts";
import { anyAhead, Rig, terms, ttlMs } from "./common.ts";

const hourMs = 3_600_000;

/** Keys that a proxy might report as generated, given the store clock. */
const generatedKeys: Readonly<Record<string, (storeMs: number) => bigint | undefined>> = {
  "none": () => undefined,
  "zero": () => 0n,
  "an hour too high": (storeMs) => BigInt(storeMs + hourMs),
  "an hour too low": (storeMs) => BigInt(storeMs - hourMs),
  "one": () => 1n,
  "negative": () => -5n,
  "the largest": () => 9223372036854775807n,
  "beyond the largest": () => 18446744073709551615n,
};

const generatedKeyCases: readonly TckCase[] = Object.entries(generatedKeys).map(([what, key]) => ({
  name: `a believed ceiling is never above the row's, though the generated key is ${what}`,
  async run(context) {
    const rig = await Rig.open(context);
    const options = terms({ maxAheadMs: anyAhead });
    await rig.slots.acquire(options);
    rig.client.interfere = async ({ name, send }) => {
      const result = await send();
      if (result === undefined || (name !== "slot.acquire" && name !== "slot.renew")) return result;
      return { ...result, generatedKey: key(rig.clock.storeMs) };
    };
    const lease = await rig.slots.acquire(options);
    await rig.checkBelieved(lease);
    for (let round = 0; round < 3; round++) {
      rig.clock.advance(9_000);
      await rig.slots.renew(lease);
      await rig.checkBelieved(lease);
    }
    rig.client.interfere = ({ send }) => send();
    await rig.slots.renew(lease);
    await rig.checkBelieved(lease);
    const slots = await rig.another();
    await slots.renew(lease);
    await rig.checkBelieved(lease);
  },
}));

/** What the statement is said to have answered, in the place of what it did. */
function nothingChanged(result: QueryResult | undefined): QueryResult {
  return { ...result, rows: [], affected: 0 };
}

/** What a holder believes of its window. */
export const beliefCases: readonly TckCase[] = [
  ...generatedKeyCases,
  {
    name: "a believed ceiling is never above the row's, by the clocks of database and process",
    async run(context) {
      for (const fetchPlan of ["statement", "transaction"] as const) {
        const options = { dialect: context.dialect, runtime: undefined, fetchPlan };
        const rig = await Rig.open(context, options);
        for (let round = 0; round < 5; round++) {
          const lease = await rig.slots.acquire(terms({ limit: 16 }));
          await rig.checkBelieved(lease);
          for (let renewal = 0; renewal < 3; renewal++) {
            await rig.slots.renew(lease);
            await rig.checkBelieved(lease);
          }
        }
      }
    },
  },
  {
    name: "a believed ceiling is never above the row's, though the clocks run apart",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms());
      for (
        const [storeMs, hostMs] of [[9_000, 1], [1, 9_000], [-hourMs, 0], [hourMs, 0]] as const
      ) {
        rig.clock.storeMs += storeMs;
        rig.clock.hostMs += hostMs;
        await rig.slots.renew(lease);
        await rig.checkBelieved(lease);
      }
    },
  },
  {
    name: "a process that has not seen the store clock yet renews without believing too much",
    async run(context) {
      const rig = await Rig.open(context);
      const data = (await rig.slots.acquire(terms())).toJSON();
      rig.clock.advance(ttlMs / 2);
      const renewed = await (await rig.another()).renew(data);
      await rig.checkBelieved(renewed);
    },
  },
  {
    name: "a renewal whose reply is lost confirms nothing, and can be repeated",
    async run(context) {
      for (const carriedOut of [true, false]) {
        const rig = await Rig.open(context);
        const lease = await rig.slots.acquire(terms());
        const before = await rig.row(lease);
        const believedMs = lease.ceilingMs;
        rig.clock.advance(10_000);
        rig.lose("slot.renew", { carriedOut });
        const { kind } = await checkRejects(rig.slots.renew(lease), StoreError);
        checkEqual([kind, lease.ceilingMs], ["connection", believedMs]);
        const after = await rig.checkBelieved(lease);
        checkEqual(after.ceilingMs - before.ceilingMs, carriedOut ? 10_000 : 0);
        rig.clock.advance(5_000);
        await rig.slots.renew(lease);
        const again = await rig.checkBelieved(lease);
        checkEqual(again.expiresAtMs, rig.clock.storeMs + ttlMs);
        checkEqual(lease.ceilingMs, again.ceilingMs);
      }
    },
  },
  {
    name: "a renewal that claims to have changed nothing is confirmed by a read of the row",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms());
      rig.clock.advance(10_000);
      let renewals = 0;
      rig.client.interfere = async ({ name, send }) => {
        const result = await send();
        return name === "slot.renew" && renewals++ === 0 ? nothingChanged(result) : result;
      };
      await rig.slots.renew(lease);
      const row = await rig.checkBelieved(lease);
      checkEqual(lease.ceilingMs, row.ceilingMs);
    },
  },
  {
    name: "an acquire that claims to have changed nothing is found by a read of the rows",
    async run(context) {
      for (const fetchPlan of ["statement", "transaction"] as const) {
        const rig = await Rig.open(context, { fetchPlan });
        const options = terms({ namespace: fetchPlan });
        await rig.slots.release(await rig.slots.acquire(options), { lastUsedMs: 0 });
        let acquires = 0;
        rig.client.interfere = async ({ name, send }) => {
          const result = await send();
          return name === "slot.acquire" && acquires++ === 0 ? nothingChanged(result) : result;
        };
        const lease = await rig.slots.acquire({ ...options, maxAheadMs: anyAhead });
        await rig.checkBelieved(lease);
      }
    },
  },
  {
    name: "a release that claims to have changed nothing has freed the slot all the same",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms());
      let releases = 0;
      rig.client.interfere = async ({ name, send }) => {
        const result = await send();
        return name === "slot.release" && releases++ === 0 ? nothingChanged(result) : result;
      };
      await rig.slots.release(lease);
      checkEqual(await rig.owned(), []);
    },
  },
  {
    name: "the answers to two renewals that were swapped let neither believe too much",
    async run(context) {
      const rig = await Rig.open(context);
      const leases: SlotLease[] = [];
      for (const ttlMs of [10_000, 60_000]) {
        leases.push(await rig.slots.acquire(terms({ ttlMs, maxAheadMs: anyAhead })));
      }
      const [short, long] = leases;
      if (short === undefined || long === undefined) return;
      rig.clock.advance(5_000);
      let first: ((result: QueryResult | undefined) => void) | undefined;
      let swaps = 0;
      rig.client.interfere = async ({ name, statement, send }) => {
        const result = await send();
        if (name !== "slot.renew" || statement === undefined || swaps === 2) return result;
        if (swaps++ === 0) return await new Promise((resolve) => first = resolve);
        first?.(result);
        return nothingChanged(undefined);
      };
      const renewals = await Promise.allSettled([rig.slots.renew(short), rig.slots.renew(long)]);
      for (const renewal of renewals) {
        if (renewal.status === "fulfilled") continue;
        check(renewal.reason instanceof StoreError, `${renewal.reason}`);
      }
      await rig.checkBelieved(short);
      await rig.checkBelieved(long);
    },
  },
  {
    name: "a lease that was lost does not grow any more",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms({ ownerKey: "one" }));
      const believedMs = lease.ceilingMs;
      await rig.slots.acquire(terms({ ownerKey: "one", maxAheadMs: anyAhead }));
      rig.clock.advance(10_000);
      await checkRejects(rig.slots.renew(lease), LeaseLostError);
      checkEqual(lease.ceilingMs, believedMs);
    },
  },
];
