import type { Range } from "../../../core/range/range.ts";
import { Identifier, sql } from "../../../core/sql/statement.ts";
import { check, checkContiguous, checkEqual } from "../check.ts";
import { Gate } from "../clients.ts";
import type { TckCase, TckContext } from "../context.ts";
import { execute, watched } from "./common.ts";

const callers = 64;

async function drawTogether(
  context: TckContext,
  options: { groupReserve: boolean; stores: number },
): Promise<void> {
  const stores = await Promise.all(
    Array.from(
      { length: options.stores },
      () => context.open({ groupReserve: options.groupReserve, timeoutMs: 60_000 }),
    ),
  );
  const draw = async (caller: number): Promise<Range[]> => {
    const store = stores[caller % stores.length];
    const drawn: Range[] = [];
    for (let round = 0; round < 3 && store; round++) {
      drawn.push(await store.ranges.reserve("order", 1 + (caller + round) % 5));
    }
    return drawn;
  };
  const drawn = await Promise.all(Array.from({ length: callers }, (_, caller) => draw(caller)));
  for (const ranges of drawn) {
    check(
      ranges.every(({ start }, index) => index === 0 || start >= (ranges[index - 1]?.end ?? 0n)),
      "the ranges of one caller rise",
    );
  }
  checkContiguous(drawn.flat(), 1n);
}

/** Many callers, on one key and on many, in one store and in several. */
export const concurrencyCases: readonly TckCase[] = [
  {
    name: "64 callers on one key get ranges without gap or overlap",
    run: (context) => drawTogether(context, { groupReserve: true, stores: 1 }),
  },
  {
    name: "64 callers on one key get ranges without gap or overlap, each by its own statement",
    run: (context) => drawTogether(context, { groupReserve: false, stores: 1 }),
  },
  {
    name: "64 callers of four stores on one key get ranges without gap or overlap",
    run: (context) => drawTogether(context, { groupReserve: true, stores: 4 }),
  },
  {
    name: "64 callers on 64 keys do not disturb each other",
    async run(context) {
      const { ranges } = await context.open({ timeoutMs: 60_000 });
      await Promise.all(Array.from({ length: callers }, async (_, caller) => {
        for (let round = 0n; round < 3n; round++) {
          const start = 1n + round * 10n;
          checkEqual(await ranges.reserve(`key-${caller}`, 10), { start, end: start + 10n });
        }
      }));
    },
  },
  {
    name: "callers that seal, advance and reserve one key at once agree on one order",
    async run(context) {
      const [one, other] = [await context.open(), await context.open()];
      const results = await Promise.allSettled([
        ...Array.from({ length: 8 }, () => one.ranges.reserve("order", 10)),
        other.ranges.advance("order", 1_000),
        ...Array.from({ length: 8 }, () => other.ranges.reserve("order", 10)),
      ]);
      await Promise.all([one.ranges.seal("order"), other.ranges.seal("order")]);
      const drawn = results.flatMap((result) =>
        result.status === "fulfilled" && typeof result.value === "object" ? [result.value] : []
      );
      checkEqual(drawn.length, 16, "the number of ranges");
      const sorted = drawn.toSorted((a, b) => (a.start < b.start ? -1 : 1));
      check(
        sorted.every(({ start }, index) => start >= (sorted[index - 1]?.end ?? 1n)),
        "no two ranges overlap",
      );
      const state = await one.ranges.read("order");
      check(state !== undefined && state.sealed, "the key is sealed");
      check(state.nextValue >= (sorted.at(-1)?.end ?? 0n), "the next value lies after all ranges");
    },
  },
  {
    name: "two stores with different tables on one client do not share values",
    async run(context) {
      const client = await context.client();
      const otherTable = `${context.tables.rangeTable}_other`;
      const one = await context.open({ client });
      const other = await context.open({ client, rangeTable: otherTable });
      for (let round = 0n; round < 3n; round++) {
        const [start, end] = [1n + round * 10n, 11n + round * 10n];
        checkEqual(await one.ranges.reserve("order", 10), { start, end });
        checkEqual(await other.ranges.reserve("order", 10), { start, end });
      }
      await other.ranges.seal("order");
      checkEqual(await one.ranges.reserve("order", 10), { start: 31n, end: 41n });
      const table = Identifier.parse(otherTable, "rangeTable");
      await execute(context, sql`drop table ${table}`);
    },
  },
  {
    name: "an answer that arrives after a later reserve's is not taken for lost writes",
    async run(context) {
      const gate = new Gate();
      const client = await watched(context);
      const { ranges } = await context.open({ client, groupReserve: false });
      client.interfere = async ({ send }) => {
        const result = await send();
        await gate.pass();
        return result;
      };
      const early = ranges.reserve("order", 10);
      await gate.arrival();
      client.interfere = ({ send }) => send();
      checkEqual(await ranges.reserve("order", 10), { start: 11n, end: 21n });
      gate.open();
      checkEqual(await early, { start: 1n, end: 11n });
    },
  },
];
