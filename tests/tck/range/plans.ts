import { RangeExhaustedError, RangeSealedError, StoreError } from "../../../core/errors.ts";
import { sql } from "../../../core/sql/statement.ts";
import { check, checkContiguous, checkEqual, checkRejects } from "../check.ts";
import type { TckCase, TckContext } from "../context.ts";
import { checkHeldUp, execute, max, patience, tableOf, watched } from "./common.ts";

const fetchPlan = "transaction";

async function openPlan(context: TckContext) {
  const client = await watched(context);
  const store = await context.open({ client, fetchPlan });
  client.sent.length = 0;
  return { client, ranges: store.ranges };
}

/** The plan that reserves in a transaction. */
export const planCases: readonly TckCase[] = [
  {
    name: "plan transaction: ranges follow each other from initialOffset",
    async run(context) {
      const { ranges } = await openPlan(context);
      const given = [];
      for (const size of [10n, 1n, 2n ** 53n, 7n]) {
        given.push(await ranges.reserve("order", size, { initialOffset: 5 }));
      }
      checkContiguous(given, 5n);
    },
  },
  {
    name: "plan transaction: the key is inserted once, in a commit of its own, before the update",
    async run(context) {
      const { client, ranges } = await openPlan(context);
      await ranges.reserve("order", 1);
      await ranges.reserve("order", 1);
      checkEqual(client.names, ["range.insert", "range.reserve", "range.reserve"]);
      checkEqual(client.sent.map(({ statement }) => statement === undefined), [false, true, true]);
    },
  },
  {
    name: "plan transaction: it updates first, and reads what it wrote before it commits",
    async run(context) {
      const { client, ranges } = await openPlan(context);
      await ranges.reserve("order", 1);
      const [, transaction] = client.sent;
      const verbs = transaction?.steps.map(({ strings }) => strings[0]?.trim().split(" ")[0]);
      checkEqual(verbs, ["update", "select"]);
    },
  },
  {
    name: "plan transaction: a sealed key, and one that is full, give nothing and do not change",
    async run(context) {
      const { ranges } = await openPlan(context);
      await ranges.reserve("sealed", 10);
      await ranges.seal("sealed");
      await checkRejects(ranges.reserve("sealed", 1), RangeSealedError);
      checkEqual(await ranges.read("sealed"), { nextValue: 11n, sealed: true });
      await ranges.reserve("full", 1, { initialOffset: max - 3n });
      await checkRejects(ranges.reserve("full", 3), RangeExhaustedError);
      checkEqual(await ranges.read("full"), { nextValue: max - 2n, sealed: false });
      checkEqual(await ranges.reserve("full", 2), { start: max - 2n, end: max });
      await ranges.seal("new");
      await checkRejects(ranges.reserve("new", 1), RangeSealedError);
    },
  },
  {
    name: "plan transaction: 64 callers of two stores get ranges without gap or overlap",
    async run(context) {
      const options = { fetchPlan, timeoutMs: 60_000 } as const;
      const stores = [
        await context.open({ ...options, groupReserve: true }),
        await context.open({ ...options, groupReserve: false }),
      ];
      const drawn = await Promise.all(
        stores.flatMap(({ ranges }) =>
          Array.from({ length: 32 }, (_, caller) => ranges.reserve("order", 1 + caller % 3))
        ),
      );
      checkContiguous(drawn, 1n);
    },
  },
  {
    name: "plan transaction: both plans draw from the same key",
    async run(context) {
      const one = await context.open({ fetchPlan });
      const other = await context.open({ fetchPlan: "statement" });
      const given = [];
      for (let round = 0; round < 3; round++) {
        given.push(await one.ranges.reserve("order", 3), await other.ranges.reserve("order", 4));
      }
      checkContiguous(given, 1n);
    },
  },
  {
    name: "plan transaction: a key that was deleted underneath is inserted again",
    async run(context) {
      const { ranges } = await openPlan(context);
      await ranges.reserve("order", 1);
      await execute(context, sql`delete from ${tableOf(context)}`);
      checkEqual(await ranges.reserve("order", 5, { initialOffset: 40 }), { start: 40n, end: 45n });
    },
  },
  {
    name: "plan transaction: one that missed its deadline is rolled back, and the client works on",
    async run(context) {
      const client = await context.client();
      const { ranges } = await context.open({ client, fetchPlan });
      await ranges.reserve("order", 10);
      const lock = await context.begin();
      await lock.session.query(
        sql`update ${tableOf(context)} set sealed = ${false} where range_key = ${"order"}`,
      );
      await checkHeldUp(ranges.reserve("order", 10, { timeoutMs: 150 }));
      await lock.rollback();
      checkEqual(await ranges.reserve("order", 10), { start: 11n, end: 21n });
      const other = await context.open();
      checkEqual(await other.ranges.reserve("order", 10), { start: 21n, end: 31n });
    },
  },
  {
    name: "plan transaction: one whose work fails leaves nothing behind",
    async run(context) {
      const store = await context.open();
      await store.ranges.reserve("order", 10);
      const client = await context.client();
      check(client.transaction !== undefined, "the client has transactions");
      const table = tableOf(context);
      const broken = await context.open({ client });
      const failing = client.transaction(function* () {
        yield sql`update ${table} set next_value = ${500n} where range_key = ${"order"}`;
        yield sql`select nothing from ${table}`;
      }, { name: "tck", deadline: patience() });
      await failing.then(
        () => check(false, "the transaction fails"),
        (error) => check(!(error instanceof StoreError), "the client throws the driver's error"),
      );
      checkEqual(await store.ranges.reserve("order", 10), { start: 11n, end: 21n });
      checkEqual(await broken.ranges.reserve("order", 10), { start: 21n, end: 31n });
    },
  },
];
