import { SchemaError } from "../../../core/errors.ts";
import { Identifier, sql } from "../../../core/sql/statement.ts";
import { check, checkContiguous, checkEqual, checkRejects } from "../check.ts";
import type { TckCase } from "../context.ts";
import { execute, tableOf, watched } from "./common.ts";

const reserved = (
  "alter between case constraint create default delete distinct drop else exists foreign from grant " +
  "group having insert join order primary references select table then union unique update values " +
  "when where"
).split(" ");

/** A word that is reserved everywhere, in some mix of cases: several runs may share a database. */
function reservedWord(): string {
  const word = reserved[Math.floor(Math.random() * reserved.length)] ?? "select";
  return [...word].map((letter) => Math.random() < 0.5 ? letter : letter.toUpperCase()).join("");
}

/** The table, whoever made it. */
export const schemaCases: readonly TckCase[] = [
  {
    name: "a missing table is named when the store opens, with how to create it",
    async run(context) {
      const error = await checkRejects(context.open({ initSchema: false }), SchemaError);
      checkEqual([error.table, error.missingColumns], [context.tables.rangeTable, []]);
      for (const part of ["initSchema", `schema/${context.dialect.name}.sql`]) {
        check(error.message.includes(part), `${error.message} names ${part}`);
      }
    },
  },
  {
    name: "initSchema creates the table, and leaves one that is there as it is",
    async run(context) {
      const store = await context.open({ initSchema: true });
      await store.ranges.reserve("order", 10);
      const again = await context.open({ initSchema: true });
      checkEqual(await again.ranges.read("order"), { nextValue: 11n, sealed: false });
      const without = await context.open({ initSchema: false });
      checkEqual(await without.ranges.reserve("order", 1), { start: 11n, end: 12n });
    },
  },
  {
    name: "initSchema sends nothing that changes a schema which is complete",
    async run(context) {
      const client = await watched(context);
      await context.open({ client, initSchema: true });
      check(client.names.length > 0, "the schema is read");
      check(!client.names.includes("open.create"), `nothing is created: ${client.names}`);
    },
  },
  {
    name: "initSchema is safe when many start at once",
    async run(context) {
      const stores = await Promise.all(
        Array.from({ length: 12 }, () => context.open({ initSchema: true, timeoutMs: 60_000 })),
      );
      const drawn = await Promise.all(stores.map(({ ranges }) => ranges.reserve("order", 10)));
      checkContiguous(drawn, 1n);
    },
  },
  {
    name: "a column that an older table lacks is named, and initSchema adds it and keeps the rows",
    async run(context) {
      const table = tableOf(context);
      await execute(
        context,
        sql`create table ${table} (
          range_key varchar(255) not null primary key,
          next_value bigint not null
        )`,
      );
      await execute(
        context,
        sql`insert into ${table} (range_key, next_value) values (${"order"}, ${500n})`,
      );
      const error = await checkRejects(context.open({ initSchema: false }), SchemaError);
      checkEqual(error.missingColumns, ["sealed"]);
      check(/\bsealed\b/.test(error.message), error.message);
      const stores = await Promise.all(
        Array.from({ length: 4 }, () => context.open({ initSchema: true, timeoutMs: 60_000 })),
      );
      const drawn = await Promise.all(stores.map(({ ranges }) => ranges.reserve("order", 10)));
      checkContiguous(drawn, 500n);
      await stores[0]?.ranges.seal("order");
      checkEqual(await stores[1]?.ranges.read("order"), { nextValue: 540n, sealed: true });
    },
  },
  {
    name: "table names may be in mixed case, reserved, and qualified by a schema",
    async run(context) {
      const suffix = context.tables.rangeTable.slice(-12);
      for (
        const rangeTable of [
          `Ranges_${suffix}`,
          `ranges_${suffix}`,
          reservedWord(),
          `${context.schema}.qualified_${suffix}`,
          `${context.schema}.${reservedWord()}`,
        ]
      ) {
        const { ranges } = await context.open({ rangeTable, initSchema: true });
        try {
          checkEqual(await ranges.reserve("order", 10), { start: 1n, end: 11n }, rangeTable);
          await ranges.seal("order");
          await ranges.advance("other", 5);
          checkEqual(await ranges.read("order"), { nextValue: 11n, sealed: true }, rangeTable);
          const plan = await context.open({ rangeTable, fetchPlan: "transaction" });
          checkEqual((await plan.ranges.reserve("other", 1)).start, 5n, rangeTable);
        } finally {
          await execute(context, sql`drop table ${Identifier.parse(rangeTable, "rangeTable")}`);
        }
      }
    },
  },
];
