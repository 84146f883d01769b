import { SchemaError } from "../../../core/errors.ts";
import type { SlotStore } from "../../../core/slot/slot_store.ts";
import { Identifier, sql, type Statement } from "../../../core/sql/statement.ts";
import type { Store } from "../../../core/store.ts";
import { check, checkEqual, checkRejects } from "../check.ts";
import type { TckCase, TckContext } from "../context.ts";
import { execute } from "../range/common.ts";
import { anyAhead, namespace, namespaceTable, slotTable, terms } from "./common.ts";

async function dropSlots(context: TckContext): Promise<void> {
  for (const table of [slotTable(context), namespaceTable(context)]) {
    await execute(context, sql`drop table ${table}`);
  }
}

/** A table of slots as somebody made it: without a column, or with a namespace of another type. */
function createSlots(
  table: Identifier,
  { namespaceType, lastOwnerKey }: { namespaceType: Statement; lastOwnerKey: Statement },
): Statement {
  return sql`
    create table ${table} (
      namespace ${namespaceType} not null,
      slot integer not null,
      owner_key varchar(255),
      incarnation char(36),${lastOwnerKey}
      fence bigint default 0 not null,
      expires_at bigint default 0 not null,
      floor_ms bigint default 0 not null,
      ceiling_ms bigint default 0 not null,
      next_floor_ms bigint default 0 not null,
      primary key (namespace, slot)
    )
  `;
}

/** Acquires, renews, asserts nothing, and releases. */
async function useSlots({ slots }: Store): Promise<void> {
  const lease = await slots.acquire(terms({ ownerKey: "one" }));
  await slots.renew(lease);
  const state = await slots.inspect(namespace);
  checkEqual(state?.slots[lease.slot]?.ownerKey, "one");
  await slots.release(lease);
  const again = await slots.acquire(terms({ ownerKey: "one", maxAheadMs: anyAhead }));
  checkEqual([again.slot, again.fence], [lease.slot, 2]);
}

/** The tables of slots, whoever made them. */
export const slotSchemaCases: readonly TckCase[] = [
  {
    name: "a store without tables of slots opens, and the first use of slots names the missing one",
    async run(context) {
      const lease = await (await context.open()).slots.acquire(terms());
      await dropSlots(context);
      const { slotTable, namespaceTable } = context.tables;
      const store = await context.open({ initSchema: false });
      checkEqual((await store.ranges.reserve("order", 10)).start, 1n);
      const uses: readonly ((slots: SlotStore) => Promise<unknown>)[] = [
        (slots) => slots.acquire(terms()),
        (slots) => slots.renew(lease),
        (slots) => slots.release(lease),
        (slots) => slots.inspect(namespace),
      ];
      for (const use of uses) {
        const error = await checkRejects(use(store.slots), SchemaError);
        check([slotTable, namespaceTable].includes(error.table), `it names ${error.table}`);
        checkEqual(error.missingColumns, []);
        for (const part of ["initSchema", `schema/${context.dialect.name}.sql`]) {
          check(error.message.includes(part), `${error.message} names ${part}`);
        }
      }
      await context.open({ initSchema: true });
      await useSlots(store);
    },
  },
  {
    name: "a store whose table of namespaces alone is missing says so when slots are used",
    async run(context) {
      await context.open();
      await execute(context, sql`drop table ${namespaceTable(context)}`);
      const store = await context.open({ initSchema: false });
      const error = await checkRejects(store.slots.acquire(terms()), SchemaError);
      checkEqual(error.table, context.tables.namespaceTable);
      await context.open({ initSchema: true });
      await useSlots(store);
    },
  },
  {
    name: "a column that an older table of slots lacks is named, and initSchema adds it",
    async run(context) {
      await context.open();
      await execute(context, sql`drop table ${slotTable(context)}`);
      const parts = { namespaceType: sql`varchar(100)`, lastOwnerKey: sql`` };
      await execute(context, createSlots(slotTable(context), parts));
      await execute(
        context,
        sql`insert into ${
          slotTable(context)
        } (namespace, slot, fence) values (${namespace}, 0, 41)`,
      );
      const old = await context.open({ initSchema: false });
      const error = await checkRejects(old.slots.acquire(terms({ limit: 1 })), SchemaError);
      checkEqual([error.table, error.missingColumns], [context.tables.slotTable, [
        "last_owner_key",
      ]]);
      check(/\blast_owner_key\b/.test(error.message), error.message);
      await Promise.all(
        Array.from({ length: 3 }, () => context.open({ initSchema: true, timeoutMs: 60_000 })),
      );
      const lease = await old.slots.acquire(terms({ limit: 1, ownerKey: "one" }));
      checkEqual(lease.fence, 42, "the row is kept");
      await old.slots.release(lease);
      checkEqual((await old.slots.inspect(namespace))?.slots[0]?.lastOwnerKey, "one");
    },
  },
  {
    name:
      "initSchema of slots is safe when many start at once, and changes nothing that is complete",
    async run(context) {
      const stores = await Promise.all(
        Array.from({ length: 8 }, () => context.open({ initSchema: true, timeoutMs: 60_000 })),
      );
      const leases = await Promise.all(
        stores.map(({ slots }) => slots.acquire(terms({ limit: 8, timeoutMs: 60_000 }))),
      );
      checkEqual(leases.map(({ slot }) => slot).sort(), [...Array(8).keys()]);
      await context.open({ initSchema: true });
      const state = await stores[0]?.slots.inspect(namespace);
      checkEqual(state?.slots.map(({ fence }) => fence), Array(8).fill(1));
    },
  },
  {
    name: "tables of slots may be in mixed case, and qualified by a schema; two do not share slots",
    async run(context) {
      const suffix = context.tables.slotTable.slice(-12);
      const names = [
        [`Slots_${suffix}`, `Namespaces_${suffix}`],
        [`${context.schema}.q_slots_${suffix}`, `${context.schema}.Q_namespaces_${suffix}`],
      ] as const;
      const first = await context.open();
      const lease = await first.slots.acquire(terms({ limit: 1 }));
      for (const [slotTable, namespaceTable] of names) {
        const store = await context.open({ slotTable, namespaceTable, initSchema: true });
        try {
          await useSlots(store);
          const plan = await context.open({
            slotTable,
            namespaceTable,
            fetchPlan: "transaction",
          });
          checkEqual((await plan.slots.inspect(namespace))?.limit, 4, slotTable);
          const other = await plan.slots.acquire(terms());
          const transaction = await context.begin();
          await plan.slots.assertHeld(other, transaction.handle);
          await transaction.rollback();
        } finally {
          for (const name of [slotTable, namespaceTable]) {
            await execute(context, sql`drop table ${Identifier.parse(name, "slotTable")}`);
          }
        }
      }
      await first.slots.renew(lease);
      checkEqual((await first.slots.inspect(namespace))?.limit, 1);
    },
  },
  {
    name: "a table of slots that takes different namespaces for equal is reported",
    async run(context) {
      const store = await context.open();
      const says = (warnings: readonly string[]) =>
        warnings.some((warning) =>
          warning.includes("Column namespace") && warning.includes(context.tables.slotTable)
        );
      check(!says(store.warnings), `the library's own is exact: ${store.warnings}`);
      await execute(context, sql`drop table ${slotTable(context)}`);
      const { family } = await context.client();
      // On SQLite the type says nothing of how texts are compared; elsewhere char ignores spaces.
      const namespaceType = family === "sqlite" ? sql`varchar(100) collate nocase` : sql`char(100)`;
      const lastOwnerKey = sql`
      last_owner_key varchar(255),`;
      await execute(context, createSlots(slotTable(context), { namespaceType, lastOwnerKey }));
      const { warnings } = await context.open({ initSchema: false });
      check(says(warnings), `it is said: ${warnings}`);
    },
  },
];
