import type { StoreEvent } from "../../../core/events.ts";
import { check, checkEqual } from "../check.ts";
import { contains, WatchedClient } from "../clients.ts";
import type { TckCase } from "../context.ts";
import { anyAhead, forged, namespace, Rig, terms, toleranceMs, ttlMs } from "./common.ts";

/** What an acquire, a renewal and a release are, and what they send. */
export const acquireCases: readonly TckCase[] = [
  {
    name: "the first acquire of a namespace makes its slots, and gives one of them",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms({ ownerKey: "one" }));
      const { storeMs } = rig.clock;
      checkEqual((await rig.rows()).map(({ slot }) => slot), [0, 1, 2, 3], "the slots");
      checkEqual(
        [lease.namespace, lease.ownerKey, lease.fence, lease.ttlMs, lease.toleranceMs],
        [namespace, "one", 1, ttlMs, toleranceMs],
        "what the lease says",
      );
      checkEqual(await rig.owned(), [{
        slot: lease.slot,
        ownerKey: "one",
        lastOwnerKey: "one",
        incarnation: lease.incarnation,
        fence: 1,
        expiresAtMs: storeMs + ttlMs,
        floorMs: lease.floorMs,
        ceilingMs: storeMs + ttlMs + toleranceMs,
        nextFloorMs: storeMs + ttlMs + toleranceMs + 1,
      }]);
      checkEqual(lease.ceilingMs, storeMs + ttlMs + toleranceMs, "the ceiling that it believes");
    },
  },
  {
    name: "unless they are given, the ttl is 30 s, the tolerance 2 s, and the owner a random UUID",
    async run(context) {
      const rig = await Rig.open(context);
      const one = await rig.slots.acquire({ namespace, limit: 2 });
      const other = await rig.slots.acquire({ namespace, limit: 2 });
      checkEqual([one.ttlMs, one.toleranceMs, other.ttlMs], [30_000, 2_000, 30_000]);
      for (const { ownerKey } of [one, other]) {
        check(/^[\da-f]{8}-([\da-f]{4}-){3}[\da-f]{12}$/.test(ownerKey), `${ownerKey} is a UUID`);
      }
      check(one.ownerKey !== other.ownerKey, "the owners differ");
      check(one.slot !== other.slot, "the slots differ");
    },
  },
  {
    name: "a lease lasts by the database's own clock",
    async run(context) {
      const rig = await Rig.open(context, { dialect: context.dialect, runtime: undefined });
      const inTurn = async (from: number, at: number, what: string) => {
        const state = await rig.slots.inspect(namespace);
        const now = state?.nowMs ?? 0;
        check(
          from + ttlMs <= at && at <= now + ttlMs,
          `${what}: ${from} <= ${at - ttlMs} <= ${now}`,
        );
        return now;
      };
      const provisioned = await rig.slots.acquire(terms());
      await rig.slots.release(provisioned);
      const beforeMs = (await rig.slots.inspect(namespace))?.nowMs ?? 0;
      check(Math.abs(beforeMs - Date.now()) < 3_600_000, "it is the time of the day");
      const lease = await rig.slots.acquire(terms({ maxAheadMs: anyAhead }));
      const acquired = await rig.checkBelieved(lease);
      const betweenMs = await inTurn(beforeMs, acquired.expiresAtMs, "acquired");
      await rig.slots.renew(lease);
      const renewed = await rig.checkBelieved(lease);
      await inTurn(betweenMs, renewed.expiresAtMs, "renewed");
    },
  },
  {
    name: "what an acquire writes comes from one value of the clock, also when that moves",
    async run(context) {
      const rig = await Rig.open(context, { dialect: context.dialect, runtime: undefined });
      const fetchPlans = ["statement", "transaction"] as const;
      for (const fetchPlan of fetchPlans) {
        const slots = await rig.another({ fetchPlan });
        for (let round = 0; round < 12; round++) {
          const lease = await slots.acquire(terms({ limit: 32 }));
          const row = await rig.checkBelieved(lease);
          // Where the statement cannot tell what it wrote, the ceiling comes from the read before it.
          const apartMs = row.expiresAtMs + toleranceMs - row.ceilingMs;
          check(
            context.dialect.returnsSlots ? apartMs === 0 : apartMs >= 0,
            `the ceiling is ${apartMs} below the expiry and the tolerance`,
          );
          checkEqual(row.nextFloorMs, row.ceilingMs + 1, "the next floor");
        }
      }
    },
  },
  {
    name: "in a provisioned namespace an acquire takes at most two statements, the others one",
    async run(context) {
      for (const fetchPlan of ["statement", "transaction"] as const) {
        const rig = await Rig.open(context, { fetchPlan });
        await rig.slots.acquire(terms());
        const inOne = fetchPlan === "statement" && context.dialect.takeSlot !== undefined;
        rig.client.sent.length = 0;
        const lease = await rig.slots.acquire(terms());
        checkEqual(rig.client.names, [...inOne ? [] : ["slot.candidates"], "slot.acquire"]);
        rig.client.sent.length = 0;
        await rig.slots.renew(lease);
        checkEqual(rig.client.names, ["slot.renew"]);
        rig.client.sent.length = 0;
        await rig.slots.release(lease);
        checkEqual(rig.client.names, ["slot.release"]);
      }
    },
  },
  {
    name: "plan transaction: every read that a write depends on runs in a transaction",
    async run(context) {
      const rig = await Rig.open(context, { fetchPlan: "transaction" });
      const lease = await rig.slots.acquire(terms({ limit: 1, ownerKey: "one" }));
      await rig.slots.acquire(terms({ limit: 1 })).catch(() => {});
      await rig.slots.inspect(namespace);
      await rig.slots.inspect("unknown");
      const reads = rig.client.sent.filter(({ name }) =>
        name === "slot.candidates" || name === "slot.inspect" || name === "slot.clock"
      );
      check(reads.length >= 5, `it reads: ${rig.client.names}`);
      for (const { name, statement, steps } of reads) {
        check(statement === undefined, `${name} is a transaction`);
        checkEqual(steps.map(({ strings }) => strings[0]?.trim().split(/\s/)[0]), ["select"], name);
      }
      await rig.slots.renew(lease);
      await rig.slots.release(lease);
    },
  },
  {
    name: "plan transaction: leases are the same, and both plans share a namespace",
    async run(context) {
      const rig = await Rig.open(context, { fetchPlan: "transaction" });
      const plain = await rig.another({ fetchPlan: "statement" });
      const leases = [
        await rig.slots.acquire(terms({ limit: 3, ownerKey: "one" })),
        await plain.acquire(terms({ limit: 3, ownerKey: "two" })),
        await rig.slots.acquire(terms({ limit: 3, ownerKey: "three" })),
      ];
      checkEqual(leases.map(({ slot }) => slot).sort(), [0, 1, 2]);
      for (const lease of leases) {
        rig.clock.advance(1_000);
        await plain.renew(lease);
        await rig.slots.renew(lease);
        await rig.checkBelieved(lease);
        await rig.slots.release(lease);
      }
      checkEqual(await rig.owned(), []);
    },
  },
  {
    name:
      "why a renewal or a release changed nothing is read from the primary: locked, with the clock",
    async run(context) {
      const { dialect } = context;
      const client = new WatchedClient(await context.client());
      const { slots } = await context.open({ client });
      const lease = await slots.acquire(terms());
      const lost = forged(lease, { fence: lease.fence + 1 });
      client.sent.length = 0;
      await slots.renew(lost).catch(() => {});
      await slots.release(lost);
      const [renewal, reason, release, again, ...more] = client.sent;
      checkEqual([renewal?.name, release?.name, more.length], ["slot.renew", "slot.release", 0]);
      for (const read of [reason, again]) {
        if (dialect.lockRow === undefined) {
          check(read !== undefined && read.statement === undefined, "it is read in a transaction");
          const [step] = read.steps;
          check(step !== undefined && contains(step, dialect.nowMillis), "it contains the clock");
          continue;
        }
        const lock = dialect.lockRow.hint ?? dialect.lockRow.clause;
        check(read?.statement !== undefined && lock !== undefined, "it is read");
        check(contains(read.statement, lock), "it locks");
        check(contains(read.statement, dialect.nowMillis), "it contains the clock");
      }
    },
  },
  {
    name: "an observer sees what was acquired, renewed and released",
    async run(context) {
      const events: StoreEvent[] = [];
      const rig = await Rig.open(context, {
        onEvent(event) {
          events.push(event);
          throw new Error("the observer failed");
        },
      });
      events.length = 0;
      const lease = await rig.slots.acquire(terms());
      await rig.slots.renew(lease);
      await rig.slots.release(lease);
      await rig.slots.release(lease);
      const { slot, fence } = lease;
      const seen = events.map((event) =>
        "slot" in event ? [event.type, event.namespace, event.slot, event.fence] : event
      );
      checkEqual(seen, [
        ["acquire", namespace, slot, fence],
        ["renew", namespace, slot, fence],
        ["released", namespace, slot, fence],
      ]);
    },
  },
  {
    name: "inspect tells what a namespace is, and what each slot is: free, held or expired",
    async run(context) {
      const rig = await Rig.open(context);
      checkEqual(await rig.slots.inspect(namespace), undefined, "a namespace that nobody has used");
      const options = terms({ limit: 3, ttlMs: 10_000, maxAheadMs: anyAhead });
      const early = await rig.slots.acquire({ ...options, ownerKey: "early", preferredSlot: 2 });
      const gone = await rig.slots.acquire({ ...options, ownerKey: "gone", preferredSlot: 0 });
      await rig.slots.release(gone);
      rig.clock.advance(10_000);
      const held = await rig.slots.acquire({ ...options, ownerKey: "held", preferredSlot: 1 });
      const state = await rig.slots.inspect(namespace);
      check(state !== undefined, "it is known");
      checkEqual(
        [state.namespace, state.limit, state.toleranceMs, state.nowMs],
        [namespace, 3, toleranceMs, rig.clock.storeMs],
      );
      checkEqual(
        state.slots.map((one) => [
          one.slot,
          one.state,
          one.ownerKey,
          one.lastOwnerKey,
          one.fence,
        ]),
        [
          [gone.slot, "free", undefined, "gone", 1],
          [held.slot, "held", "held", "held", 1],
          [early.slot, "expired", "early", "early", 1],
        ],
      );
      for (const { slot, expiresAtMs, floorMs, ceilingMs, nextFloorMs } of state.slots) {
        const row = await rig.row({ namespace, slot });
        checkEqual(
          [expiresAtMs, floorMs, ceilingMs, nextFloorMs],
          [row.expiresAtMs, row.floorMs, row.ceilingMs, row.nextFloorMs],
        );
      }
    },
  },
];
