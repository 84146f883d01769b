import {
  InvalidArgumentError,
  NamespaceConflictError,
  SlotsExhaustedError,
  StoreError,
} from "../../../core/errors.ts";
import type { AcquireOptions } from "../../../core/slot/slot_arguments.ts";
import { maxLimit } from "../../../core/slot/slot_arguments.ts";
import { sql } from "../../../core/sql/statement.ts";
import { check, checkEqual, checkRejects } from "../check.ts";
import { StagedError } from "../clients.ts";
import type { TckCase, TckContext } from "../context.ts";
import { anyAhead, namespace, namespaceTable, Rig, slotTable, terms } from "./common.ts";

/** Takes the only slot of each namespace, and checks that none is another's. */
async function checkApart(context: TckContext, names: readonly string[]): Promise<void> {
  const rig = await Rig.open(context);
  const limits = names.map((_, index) => index + 1);
  const leases = [];
  for (const [index, name] of names.entries()) {
    const lease = await rig.slots.acquire(terms({ namespace: name, limit: limits[index] ?? 1 }));
    checkEqual([lease.namespace, lease.fence], [name, 1], JSON.stringify(name));
    leases.push(lease);
  }
  for (const [index, lease] of leases.entries()) {
    const state = await rig.slots.inspect(lease.namespace);
    checkEqual([state?.limit, state?.slots.length], [limits[index], limits[index]], "its slots");
    checkEqual((await rig.owned(lease.namespace)).length, 1, JSON.stringify(lease.namespace));
    await rig.checkBelieved(lease);
    await rig.slots.release(lease);
  }
  for (const name of names) checkEqual((await rig.owned(name)).length, 0, "after the releases");
}

/** Deletes rows of the namespace, as if their insertion had been cut. */
async function cut(context: TckContext, rig: Rig, slots: readonly number[]): Promise<void> {
  for (const slot of slots) {
    await rig.execute(sql`
      delete from ${slotTable(context)} where namespace = ${namespace} and slot = ${slot}
    `);
  }
}

const missingRows: Readonly<Record<string, readonly number[]>> = {
  "the first": [0, 1, 2],
  "the middle ones": [7, 8, 10],
  "the last": [18, 19],
  "all but one": [...Array(20).keys()].filter((slot) => slot !== 11),
};

const cutCases: readonly TckCase[] = Object.entries(missingRows).map(([which, missing]) => ({
  name: `a namespace whose provisioning was cut is completed: ${which} are missing`,
  async run(context) {
    const rig = await Rig.open(context);
    const held = await rig.slots.acquire(terms({ limit: 20, preferredSlot: 11 }));
    await cut(context, rig, missing);
    const row = await rig.checkBelieved(held);
    const lease = await rig.slots.acquire(terms({ limit: 20 }));
    const rows = await rig.rows();
    checkEqual(rows.map(({ slot }) => slot), [...Array(20).keys()], "the slots");
    check(lease.slot !== 11, "a slot that is held is not given");
    checkEqual(rows[11], row, "a row that was there stays as it is");
    checkEqual(rows.filter(({ fence }) => fence > 0).length, 2, "the slots that were used");
  },
}));

/** What a namespace is, and which slots are its. */
export const namespaceCases: readonly TckCase[] = [
  ...cutCases,
  {
    name: "another limit or tolerance than a namespace has is refused, and said",
    async run(context) {
      const rig = await Rig.open(context);
      await rig.slots.acquire(terms({ limit: 2 }));
      const other = await rig.another({ fetchPlan: "transaction" });
      const wrong: readonly Partial<AcquireOptions>[] = [
        { limit: 3 },
        { limit: 1 },
        { limit: 2, toleranceMs: 1_999 },
        { limit: 2, toleranceMs: 0 },
        { limit: 65_536, toleranceMs: 2_001 },
      ];
      const refuse = async () => {
        const rows = await rig.rows();
        for (const slots of [rig.slots, other]) {
          for (const options of wrong) {
            const error = await checkRejects(slots.acquire(terms(options)), NamespaceConflictError);
            checkEqual([error.namespace, error.limit, error.toleranceMs], [namespace, 2, 2_000]);
            for (const part of ["limit 2", "toleranceMs 2000", `received limit ${options.limit}`]) {
              check(error.message.includes(part), `"${error.message}" does not say ${part}`);
            }
          }
        }
        checkEqual(await rig.rows(), rows, "the rows");
      };
      await refuse();
      await rig.slots.acquire(terms({ limit: 2, ttlMs: 5_000 }));
      await refuse();
    },
  },
  {
    name: "of first acquires with different limits at once one decides",
    async run(context) {
      const rig = await Rig.open(context, { runtime: undefined });
      const stores = [rig.slots, await rig.another(), await rig.another()];
      const results = await Promise.allSettled(
        Array.from(
          { length: 12 },
          (_, caller) =>
            (stores[caller % 3] ?? rig.slots).acquire(terms({ limit: 20 + caller % 2 })),
        ),
      );
      const limit = (await rig.slots.inspect(namespace))?.limit;
      check(limit === 20 || limit === 21, `the limit is ${limit}`);
      for (const [caller, result] of results.entries()) {
        const asked = 20 + caller % 2;
        if (result.status === "fulfilled") {
          checkEqual(asked, limit, "who acquired");
          continue;
        }
        const { reason } = result;
        check(reason instanceof NamespaceConflictError, `${reason}`);
        checkEqual([asked === limit, reason.limit], [false, limit], "who was refused");
      }
      checkEqual((await rig.rows()).map(({ slot }) => slot), [...Array(limit).keys()], "the slots");
    },
  },
  {
    name: "a namespace of 65,536 slots whose provisioning failed halfway is completed by the next",
    async run(context) {
      const rig = await Rig.open(context, { runtime: undefined, timeoutMs: 120_000 });
      const options = terms({ limit: maxLimit });
      let steps = 0;
      rig.client.interfere = ({ name, send }) =>
        name === "slot.provision" && ++steps > 3
          ? Promise.reject(new StagedError("permission"))
          : send();
      await checkRejects(rig.slots.acquire(options), StoreError);
      rig.client.interfere = ({ send }) => send();
      rig.client.sent.length = 0;
      const lease = await rig.slots.acquire(options);
      const provisions = rig.client.names.filter((name) => name === "slot.provision").length;
      check(provisions <= 16, `it takes ${provisions} statements`);
      const { rows: [counted] } = await rig.execute(sql`
        select count(*) as slots, min(slot) as first, max(slot) as last
        from ${slotTable(context)} where namespace = ${namespace}
      `);
      checkEqual(
        [counted?.number("slots"), counted?.number("first"), counted?.number("last")],
        [maxLimit, 0, maxLimit - 1],
      );
      checkEqual(lease.fence, 1);
      rig.client.sent.length = 0;
      const last = await rig.slots.acquire({ ...options, preferredSlot: maxLimit - 1 });
      checkEqual(last.slot, lease.slot === maxLimit - 1 ? last.slot : maxLimit - 1);
      check(rig.client.names.length <= 2, `${rig.client.names}`);
    },
  },
  {
    name: "a namespace of one slot has one holder",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms({ limit: 1 }));
      checkEqual(lease.slot, 0);
      const error = await checkRejects(
        rig.slots.acquire(terms({ limit: 1 })),
        SlotsExhaustedError,
      );
      checkEqual([error.namespace, error.limit], [namespace, 1]);
      checkEqual((await rig.rows()).length, 1);
    },
  },
  {
    name: "rows at or above the limit are never given",
    async run(context) {
      const rig = await Rig.open(context);
      const taken = [await rig.slots.acquire(terms({ limit: 2 }))];
      for (const slot of [2, 3, 100]) {
        await rig.execute(sql`
          insert into ${slotTable(context)} (namespace, slot) values (${namespace}, ${slot})
        `);
      }
      taken.push(await rig.slots.acquire(terms({ limit: 2 })));
      checkEqual(taken.map(({ slot }) => slot).sort(), [0, 1]);
      await checkRejects(rig.slots.acquire(terms({ limit: 2 })), SlotsExhaustedError);
      const [slots] = [await rig.another({ fetchPlan: "transaction" })];
      await checkRejects(slots.acquire(terms({ limit: 2 })), SlotsExhaustedError);
      // Nor do they count as provisioned.
      await cut(context, rig, [taken[1]?.slot ?? 0]);
      checkEqual((await rig.slots.acquire(terms({ limit: 2 }))).slot, taken[1]?.slot);
    },
  },
  {
    name: "a slot that another process freed while others are held is found",
    async run(context) {
      const rig = await Rig.open(context);
      const other = await rig.another();
      const options = terms({ limit: 3, maxAheadMs: anyAhead });
      const leases = [];
      for (let slot = 0; slot < 3; slot++) leases.push(await other.acquire(options));
      await checkRejects(rig.slots.acquire(options), SlotsExhaustedError);
      const [, freed] = leases;
      if (freed === undefined) return;
      await other.release(freed);
      checkEqual((await rig.slots.acquire(options)).slot, freed.slot);
    },
  },
  {
    name: "a namespace whose row was deleted underneath is decided again, and its rows stay",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms());
      await rig.execute(sql`delete from ${namespaceTable(context)} where namespace = ${namespace}`);
      await rig.slots.acquire(terms());
      await rig.checkBelieved(lease);
      checkEqual((await rig.owned()).length, 2);
    },
  },
  {
    name: "namespaces that differ only in case, accent or normalisation form are different",
    run: (context) =>
      checkApart(context, ["Order", "order", "ORDER", "ordér", "orde\u0301r", "ORDÉR"]),
  },
  {
    name: "namespaces that differ only in spaces are different, or refused where they cannot be",
    async run(context) {
      if (!context.dialect.ignoresTrailingSpace) {
        return await checkApart(context, ["order", "order ", "order  ", " order", "order\u00a0"]);
      }
      await checkApart(context, ["order", " order", "  order"]);
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms());
      for (
        const refused of [
          rig.slots.acquire(terms({ namespace: "order " })),
          rig.slots.acquire(terms({ ownerKey: "one " })),
          rig.slots.inspect("order "),
          rig.slots.renew({ ...lease.toJSON(), namespace: "order " }),
        ]
      ) {
        const { message } = await checkRejects(refused, InvalidArgumentError);
        check(message.includes("must not end in a space"), message);
      }
    },
  },
  {
    name: "namespaces of 100 UTF-16 units, and those that look like SQL, are data",
    run: (context) =>
      checkApart(context, [
        "n".repeat(99) + "a",
        "n".repeat(99) + "b",
        "字".repeat(100),
        "😀".repeat(50),
        "'; drop table cosid_slot; --",
        "%",
        "null",
        "$1",
        "?",
        "\\'",
      ]),
  },
  {
    name: "owner keys that differ only in case, accent or length are different owners",
    async run(context) {
      const rig = await Rig.open(context);
      const keys = ["Node", "node", "nodé", "nod", `${"n".repeat(254)}a`, `${"n".repeat(254)}b`];
      const options = terms({ limit: keys.length, maxAheadMs: anyAhead });
      const slots = new Map<string, number>();
      for (const ownerKey of keys) {
        slots.set(ownerKey, (await rig.slots.acquire({ ...options, ownerKey })).slot);
      }
      checkEqual(new Set(slots.values()).size, keys.length, "the slots");
      for (const [ownerKey, slot] of slots) {
        const again = await rig.slots.acquire({ ...options, ownerKey });
        checkEqual([again.slot, again.fence], [slot, 2], ownerKey);
        checkEqual((await rig.row(again)).ownerKey, ownerKey);
      }
    },
  },
];
