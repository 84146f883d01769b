import { RangeExhaustedError, RangeSealedError } from "../../../core/errors.ts";
import type { Range } from "../../../core/range/range.ts";
import { check, checkEqual, checkRejects } from "../check.ts";
import type { TckCase } from "../context.ts";
import { max, watched } from "./common.ts";

/** The values that a key gives, from its first to its last. */
export const valueCases: readonly TckCase[] = [
  {
    name: "the first reserve of a key starts at 1",
    async run(context) {
      const { ranges } = await context.open();
      checkEqual(await ranges.reserve("order", 1_000), { start: 1n, end: 1_001n });
    },
  },
  {
    name: "the first reserve of a key starts at initialOffset, from 0 up",
    async run(context) {
      const { ranges } = await context.open();
      checkEqual(await ranges.reserve("a", 5, { initialOffset: 0 }), { start: 0n, end: 5n });
      checkEqual(await ranges.reserve("b", 5n, { initialOffset: 700n }), {
        start: 700n,
        end: 705n,
      });
      const last = { initialOffset: max - 1n };
      checkEqual(await ranges.reserve("c", 1, last), { start: max - 1n, end: max });
    },
  },
  {
    name: "later reserves ignore initialOffset",
    async run(context) {
      const { ranges } = await context.open();
      await ranges.reserve("order", 10);
      const range = await ranges.reserve("order", 10, { initialOffset: 5_000 });
      checkEqual(range, { start: 11n, end: 21n });
    },
  },
  {
    name: "ranges of one key follow each other without gap or overlap, whatever their sizes",
    async run(context) {
      const { ranges } = await context.open();
      const sizes = [1n, 10n ** 12n, 1n, 7n, 1_000n, 2n];
      const given: Range[] = [];
      for (const size of sizes) {
        const range = await ranges.reserve("order", size);
        checkEqual(range.end - range.start, size, "the size");
        given.push(range);
      }
      check(
        given.every(({ start }, index) => start === (given[index - 1]?.end ?? 1n)),
        "each begins where the one before ended",
      );
    },
  },
  {
    name: "values at and beyond 2^53 are exact",
    async run(context) {
      const { ranges } = await context.open();
      const edge = 2n ** 53n;
      const first = await ranges.reserve("order", 2, { initialOffset: edge - 1n });
      checkEqual(first, { start: edge - 1n, end: edge + 1n });
      checkEqual(await ranges.reserve("order", 1), { start: edge + 1n, end: edge + 2n });
      checkEqual(await ranges.reserve("order", 1), { start: edge + 2n, end: edge + 3n });
      checkEqual(await ranges.reserve("order", edge + 1n), {
        start: edge + 3n,
        end: 2n * edge + 4n,
      });
    },
  },
  {
    name: "the last values below 2^63 can be reserved",
    async run(context) {
      const { ranges } = await context.open();
      const first = await ranges.reserve("order", 1, { initialOffset: max - 3n });
      checkEqual(first, { start: max - 3n, end: max - 2n });
      checkEqual(await ranges.reserve("order", 2), { start: max - 2n, end: max });
      checkEqual(await ranges.read("order"), { nextValue: max, sealed: false });
    },
  },
  {
    name: "past 2^63 - 1 nothing is reserved and the row is unchanged",
    async run(context) {
      const { ranges } = await context.open();
      await ranges.reserve("order", 1, { initialOffset: max - 6n });
      for (const size of [6n, 10n, max - 1n]) {
        const error = await checkRejects(ranges.reserve("order", size), RangeExhaustedError);
        checkEqual([error.key, error.nextValue, error.size], ["order", max - 5n, size]);
        checkEqual(await ranges.read("order"), { nextValue: max - 5n, sealed: false });
      }
      checkEqual(await ranges.reserve("order", 5), { start: max - 5n, end: max });
      await checkRejects(ranges.reserve("order", 1), RangeExhaustedError);
    },
  },
  {
    name: "a sealed key gives no value and keeps its next one",
    async run(context) {
      const { ranges } = await context.open();
      await ranges.reserve("order", 10);
      await ranges.seal("order");
      const error = await checkRejects(ranges.reserve("order", 1), RangeSealedError);
      checkEqual(error.key, "order");
      checkEqual(await ranges.read("order"), { nextValue: 11n, sealed: true });
    },
  },
  {
    name: "a sealed key gives no value right after a reserve on the same connection",
    async run(context) {
      const client = await context.client();
      const { ranges } = await context.open({ client });
      await ranges.reserve("closed", 10);
      await ranges.seal("closed");
      for (let round = 0; round < 5; round++) {
        await ranges.reserve("open", 10);
        await checkRejects(ranges.reserve("closed", 10), RangeSealedError);
      }
      checkEqual(await ranges.read("closed"), { nextValue: 11n, sealed: true });
    },
  },
  {
    name: "a key that was never used can be sealed",
    async run(context) {
      const { ranges } = await context.open();
      await ranges.seal("order");
      await checkRejects(ranges.reserve("order", 1, { initialOffset: 50 }), RangeSealedError);
      checkEqual((await ranges.read("order"))?.sealed, true);
    },
  },
  {
    name: "sealing twice is the same as once",
    async run(context) {
      const { ranges } = await context.open();
      await ranges.reserve("order", 10);
      await ranges.seal("order");
      await ranges.seal("order");
      checkEqual(await ranges.read("order"), { nextValue: 11n, sealed: true });
    },
  },
  {
    name: "a sealed key that is full says that it is sealed",
    async run(context) {
      const { ranges } = await context.open();
      await ranges.reserve("order", 1, { initialOffset: max - 1n });
      await ranges.seal("order");
      await checkRejects(ranges.reserve("order", 1), RangeSealedError);
    },
  },
  {
    name: "advance raises the next value",
    async run(context) {
      const { ranges } = await context.open();
      await ranges.reserve("order", 10);
      checkEqual(await ranges.advance("order", 500), 500n);
      checkEqual(await ranges.reserve("order", 10), { start: 500n, end: 510n });
      const beyond = 2n ** 53n + 1n;
      checkEqual(await ranges.advance("order", beyond), beyond);
      checkEqual(await ranges.reserve("order", 1), { start: beyond, end: beyond + 1n });
    },
  },
  {
    name: "advance never lowers the next value, and returns the one there is",
    async run(context) {
      const { ranges } = await context.open();
      await ranges.reserve("order", 100);
      for (const to of [0, 50, 100, 101]) {
        checkEqual(await ranges.advance("order", to), 101n);
      }
      checkEqual(await ranges.read("order"), { nextValue: 101n, sealed: false });
    },
  },
  {
    name: "advance starts a key that was never used",
    async run(context) {
      const { ranges } = await context.open();
      checkEqual(await ranges.advance("order", 40), 40n);
      checkEqual(await ranges.reserve("order", 10), { start: 40n, end: 50n });
    },
  },
  {
    name: "advance to 2^63 - 1 leaves nothing to reserve",
    async run(context) {
      const { ranges } = await context.open();
      checkEqual(await ranges.advance("order", max), max);
      await checkRejects(ranges.reserve("order", 1), RangeExhaustedError);
    },
  },
  {
    name: "advance refuses a sealed key",
    async run(context) {
      const { ranges } = await context.open();
      await ranges.reserve("order", 10);
      await ranges.seal("order");
      await checkRejects(ranges.advance("order", 500), RangeSealedError);
      checkEqual(await ranges.read("order"), { nextValue: 11n, sealed: true });
    },
  },
  {
    name: "read takes nothing, and knows no key that was never used",
    async run(context) {
      const { ranges } = await context.open();
      checkEqual(await ranges.read("order"), undefined);
      await ranges.reserve("order", 10);
      for (let round = 0; round < 3; round++) {
        checkEqual(await ranges.read("order"), { nextValue: 11n, sealed: false });
      }
      checkEqual(await ranges.reserve("order", 1), { start: 11n, end: 12n });
    },
  },
  {
    name: "a reserve is one statement, and the reason is read only if nothing came back",
    async run(context) {
      const client = await watched(context);
      const { ranges } = await context.open({ client });
      client.sent.length = 0;
      await ranges.reserve("order", 10);
      await ranges.reserve("order", 10);
      checkEqual(client.names, ["range.reserve", "range.reserve"]);
      await ranges.seal("order");
      client.sent.length = 0;
      await checkRejects(ranges.reserve("order", 10), RangeSealedError);
      checkEqual(client.names, ["range.reserve", "range.reason"]);
    },
  },
];
