import {
  InTransactionError,
  StoreClosedError,
  StoreError,
  type StoreErrorKind,
  TimeoutError,
} from "../../../core/errors.ts";
import { systemRuntime } from "../../../core/runtime.ts";
import type { StoreEvent } from "../../../core/events.ts";
import { maxAttempts } from "../../../core/retry.ts";
import type { SlotLease } from "../../../core/slot/slot_lease.ts";
import type { SlotStore } from "../../../core/slot/slot_store.ts";
import type { Store } from "../../../core/store.ts";
import { sql } from "../../../core/sql/statement.ts";
import { check, checkEqual, checkRejects } from "../check.ts";
import { StagedError } from "../clients.ts";
import type { TckCase } from "../context.ts";
import { ManualRuntime } from "../manual_runtime.ts";
import { settle } from "../range/common.ts";
import {
  anyAhead,
  namespace,
  namespaceTable,
  Rig,
  slotTable,
  terms,
  toleranceMs,
  ttlMs,
} from "./common.ts";

type Call = (slots: SlotStore, lease: SlotLease) => Promise<unknown>;

/** Every call that sends something by itself. */
const calls: Readonly<Record<string, Call>> = {
  acquire: (slots) => slots.acquire(terms()),
  renew: (slots, lease) => slots.renew(lease),
  inspect: (slots) => slots.inspect(namespace),
  release: (slots, lease) => slots.release(lease),
};

const plans = ["statement", "transaction"] as const;

/** A write of an acquire whose reply is lost, and what it is known of it. */
const unknowns: readonly (readonly [StoreErrorKind, boolean])[] = [
  ["connection", true],
  ["connection", false],
  ["other", true],
  ["other", false],
];

/** What may go wrong between a caller and the rows. */
export const slotFaultCases: readonly TckCase[] = [
  {
    name: "an acquire whose reply is lost finds its slot by its incarnation, and takes no second",
    async run(context) {
      for (const fetchPlan of plans) {
        for (const [kind, carriedOut] of unknowns) {
          const rig = await Rig.open(context, { fetchPlan });
          const options = terms({ namespace: `${fetchPlan} ${kind} ${carriedOut}` });
          await rig.slots.release(await rig.slots.acquire(options), { lastUsedMs: 0 });
          let lost = 0;
          rig.client.interfere = async ({ name, send }) => {
            if (name !== "slot.acquire" || lost++ > 0) return await send();
            if (carriedOut) await send();
            throw new StagedError(kind);
          };
          const lease = await rig.slots.acquire(options);
          await rig.checkBelieved(lease);
          checkEqual((await rig.owned(options.namespace)).length, 1, "the slots that are taken");
          await rig.slots.renew(lease);
          await rig.checkBelieved(lease);
        }
      }
    },
  },
  {
    name: "an acquire whose replies are lost again and again ends with the error, after a bound",
    async run(context) {
      for (const fetchPlan of plans) {
        const rig = await Rig.open(context, { fetchPlan });
        const options = terms({ namespace: fetchPlan });
        await rig.slots.release(await rig.slots.acquire(options), { lastUsedMs: 0 });
        rig.client.sent.length = 0;
        rig.client.interfere = ({ name, send }) =>
          name === "slot.acquire" ? Promise.reject(new StagedError("connection")) : send();
        const { kind, statement } = await checkRejects(rig.slots.acquire(options), StoreError);
        checkEqual([kind, statement], ["connection", "slot.acquire"]);
        const attempts = rig.client.names.filter((name) => name === "slot.acquire").length;
        check(attempts > 1 && attempts <= maxAttempts, `${attempts} attempts`);
      }
    },
  },
  {
    name:
      "an acquire whose write arrives after its reply was lost and a read has missed it costs one " +
      "slot until it expires, never the lease that was given",
    async run(context) {
      for (const fetchPlan of plans) {
        const rig = await Rig.open(context, { fetchPlan });
        const options = terms({ namespace: fetchPlan, ownerKey: "one", maxAheadMs: anyAhead });
        await rig.slots.release(await rig.slots.acquire(options), { lastUsedMs: 0 });
        let arrive: (() => Promise<unknown>) | undefined;
        rig.client.interfere = async ({ name, send }) => {
          if (name !== "slot.acquire" || arrive !== undefined) return await send();
          arrive = send;
          throw new StagedError("connection");
        };
        const lease = await rig.slots.acquire(options);
        await arrive?.();
        await rig.checkBelieved(lease);
        check((await rig.owned(fetchPlan)).length <= 2, "it costs one slot at most");
        await rig.slots.renew(lease);
        await rig.slots.release(lease);
        rig.clock.advance(ttlMs + toleranceMs);
        const others = [];
        for (let slot = 0; slot < 4; slot++) {
          others.push((await rig.slots.acquire({ ...options, ownerKey: `${slot}` })).slot);
        }
        checkEqual(others.sort(), [0, 1, 2, 3], "all come free");
      }
    },
  },
  {
    name: "a release whose reply is lost can be repeated, with the same effect",
    async run(context) {
      for (const carriedOut of [true, false]) {
        const rig = await Rig.open(context);
        const lease = await rig.slots.acquire(terms());
        const lastUsedMs = rig.clock.storeMs + 1_000;
        rig.lose("slot.release", { carriedOut });
        const { kind } = await checkRejects(rig.slots.release(lease, { lastUsedMs }), StoreError);
        checkEqual(kind, "connection");
        const between = await rig.row(lease);
        checkEqual(between.ownerKey === undefined, carriedOut);
        await rig.slots.release(lease, { lastUsedMs });
        const after = await rig.row(lease);
        checkEqual([after.ownerKey, after.nextFloorMs], [undefined, lastUsedMs + 1]);
        if (carriedOut) checkEqual(after, between);
      }
    },
  },
  {
    name: "a release whose reply was lost, and that is repeated after a takeover, changes nothing",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms({ limit: 1 }));
      rig.lose("slot.release", { carriedOut: true });
      await checkRejects(rig.slots.release(lease, { lastUsedMs: 0 }), StoreError);
      const other = await rig.slots.acquire(terms({ limit: 1 }));
      const row = await rig.checkBelieved(other);
      await rig.slots.release(lease, { lastUsedMs: 0 });
      checkEqual(await rig.row(lease), row);
    },
  },
  {
    name: "steps of slots that the database rolled back are repeated, with a bound",
    async run(context) {
      for (const kind of ["deadlock", "serialization"] as const) {
        const events: StoreEvent[] = [];
        const rig = await Rig.open(context, {
          onEvent: (event) => void events.push(event),
          runtime: { ...systemRuntime, random: () => 0 },
        });
        const failing = async <T>(failures: number, call: () => Promise<T>): Promise<T> => {
          let left = failures;
          rig.client.interfere = ({ send }) =>
            left-- > 0 ? Promise.reject(new StagedError(kind)) : send();
          return await call().finally(() => rig.client.interfere = ({ send }) => send());
        };
        const lease = await failing(2, () => rig.slots.acquire(terms()));
        await rig.checkBelieved(lease);
        rig.clock.advance(5_000);
        events.length = 0;
        await failing(2, () => rig.slots.renew(lease));
        await rig.checkBelieved(lease);
        const types = events.map(({ type }) => type).filter((type) => type !== "clockMoved");
        checkEqual(types, ["retry", "retry", "renew"]);
        const { ceilingMs } = lease;
        const error = await checkRejects(
          failing(Number.POSITIVE_INFINITY, () => rig.slots.renew(lease)),
          StoreError,
        );
        checkEqual([error.kind, lease.ceilingMs], [kind, ceilingMs]);
        checkEqual((await failing(2, () => rig.slots.inspect(namespace)))?.limit, 4);
        await failing(2, () => rig.slots.release(lease));
        checkEqual(await rig.owned(), []);
      }
    },
  },
  {
    name: "a client that never answers holds a call of slots no longer than its deadline",
    async run(context) {
      const runtime = new ManualRuntime();
      const rig = await Rig.open(context, { runtime });
      const lease = await rig.slots.acquire(terms());
      rig.client.interfere = () => new Promise(() => {});
      const timeoutMs = 700;
      const results = Promise.allSettled([
        rig.slots.acquire(terms({ timeoutMs })),
        rig.slots.renew(lease, { timeoutMs }),
        rig.slots.inspect(namespace, { timeoutMs }),
        rig.slots.release(lease, { timeoutMs }),
      ]);
      let ended = false;
      results.then(() => ended = true);
      await settle();
      runtime.advance(699);
      await settle();
      checkEqual(ended, false, "ended before the deadline");
      runtime.advance(1);
      for (const result of await results) {
        check(result.status === "rejected", "it is rejected");
        check(result.reason instanceof TimeoutError, "it is a TimeoutError");
        checkEqual([result.reason.outcome, result.reason.timeoutMs], ["unknown", 700]);
      }
      checkEqual(runtime.timers, 0, "the timers left behind");
    },
  },
  {
    name: "a call of slots whose signal has aborted sends nothing, and rejects with the reason",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms());
      rig.client.sent.length = 0;
      const reason = new Error("enough");
      const options = { signal: AbortSignal.abort(reason) };
      for (
        const call of [
          () => rig.slots.acquire(terms(options)),
          () => rig.slots.renew(lease, options),
          () => rig.slots.inspect(namespace, options),
          () => rig.slots.release(lease, options),
        ]
      ) checkEqual(await call().then(() => "done", (error) => error === reason), true);
      checkEqual(rig.client.names, []);
    },
  },
  {
    name: "an error of no known kind ends a renewal or a release at once, and holds no value",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms({ namespace: "n4mespace", ownerKey: "0wner" }));
      rig.client.sent.length = 0;
      const cause = new Error("the driver says s3cr3t");
      rig.client.interfere = () => Promise.reject(cause);
      for (const call of [() => rig.slots.renew(lease), () => rig.slots.release(lease)]) {
        const error = await checkRejects(call(), StoreError);
        checkEqual([error.kind, error.cause === cause], ["other", true]);
        for (const part of ["s3cr3t", "n4mespace", "0wner", lease.incarnation]) {
          check(!error.message.includes(part), `the message holds ${part}`);
        }
      }
      checkEqual(rig.client.names, ["slot.renew", "slot.release"]);
    },
  },
  {
    name: "inside a transaction of the application's no slot is acquired, renewed or released",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms());
      const rows = await rig.rows();
      const inside = await context.inside();
      let opened: Promise<Store> | undefined;
      const call = async (name: string) => {
        const store = await (opened ??= inside.open({ initSchema: false, timeoutMs: 200 }));
        return await calls[name]?.(store.slots, lease);
      };
      for (const name of ["acquire", "renew", "release"]) {
        await checkRejects(call(name), InTransactionError);
      }
      await inside.rollback();
      checkEqual(await rig.rows(), rows);
    },
  },
  {
    name: "a table of slots that is dropped underneath is an error of its kind",
    async run(context) {
      for (const table of [slotTable(context), namespaceTable(context)]) {
        const rig = await Rig.open(context);
        const lease = await rig.slots.acquire(terms({ maxAheadMs: anyAhead }));
        await rig.execute(sql`drop table ${table}`);
        const names = table.name === context.tables.slotTable
          ? Object.keys(calls)
          : ["acquire", "inspect"];
        for (const name of names) {
          const call = () => checkRejects(calls[name]?.(rig.slots, lease) ?? settle(), StoreError);
          const first = await call();
          // H2 may say of a statement that it cannot parse only that the protocol broke.
          const error = first.kind === "connection" ? await call() : first;
          checkEqual(error.kind, "missingTable", name);
          check(error.message.includes("initSchema"), error.message);
        }
        await context.open();
      }
    },
  },
  {
    name: "a store that was closed refuses every call of slots",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms());
      await rig.store.close();
      for (const call of Object.values(calls)) {
        await checkRejects(call(rig.slots, lease), StoreClosedError);
      }
      const transaction = await context.begin();
      await checkRejects(rig.slots.assertHeld(lease, transaction.handle), StoreClosedError);
      await transaction.rollback();
      checkEqual((await rig.owned()).length, 1, "the lease stays: it was not held by the store");
    },
  },
];
