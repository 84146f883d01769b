import {
  RangeExhaustedError,
  RangeSealedError,
  StoreError,
  TimeoutError,
} from "../../../core/errors.ts";
import type { StoreEvent } from "../../../core/events.ts";
import type { Range } from "../../../core/range/range.ts";
import type { RangeStore } from "../../../core/range/range_store.ts";
import { checkEqual, checkRejects } from "../check.ts";
import { Gate, type WatchedClient } from "../clients.ts";
import type { TckCase, TckContext } from "../context.ts";
import { ManualRuntime } from "../manual_runtime.ts";
import { max, settle, watched } from "./common.ts";

interface Held {
  readonly ranges: RangeStore;
  readonly client: WatchedClient;
  readonly gate: Gate;
  readonly runtime: ManualRuntime;
  /** The first reserve, which waits at the gate before it is sent. */
  readonly first: Promise<Range>;
  readonly events: StoreEvent[];
}

/** A store whose reserves wait at a gate, and a first one that has come to it. */
async function held(
  context: TckContext,
  options: { initialOffset?: bigint; timeoutMs?: number } = {},
): Promise<Held> {
  const gate = new Gate();
  const runtime = new ManualRuntime();
  const events: StoreEvent[] = [];
  const client = await watched(context);
  const onEvent = (event: StoreEvent) => void events.push(event);
  const { ranges } = await context.open({ client, runtime, onEvent });
  client.sent.length = 0;
  client.interfere = async ({ name, send }) => {
    if (name === "range.reserve") await gate.pass();
    return await send();
  };
  const first = ranges.reserve("order", 1, options);
  first.catch(() => {});
  await gate.arrival();
  return { ranges, client, gate, runtime, first, events };
}

async function openNext(gate: Gate): Promise<void> {
  await gate.arrival();
  gate.open();
}

/** Calls of one key that share statements. */
export const groupCases: readonly TckCase[] = [
  {
    name: "calls that wait for a key go out as one statement, split in the order of the calls",
    async run(context) {
      const { ranges, client, gate, first, events } = await held(context);
      const waiting = [5n, 1n, 10n ** 12n].map((size) => ranges.reserve("order", size));
      gate.open();
      await openNext(gate);
      checkEqual(await first, { start: 1n, end: 2n });
      checkEqual(await Promise.all(waiting), [
        { start: 2n, end: 7n },
        { start: 7n, end: 8n },
        { start: 8n, end: 8n + 10n ** 12n },
      ]);
      checkEqual(client.names, ["range.reserve", "range.reserve"]);
      const calls = events.flatMap((event) => event.type === "reserve" ? [event.calls] : []);
      checkEqual(calls, [1, 3], "the calls of each statement");
    },
  },
  {
    name: "what callers ask for when a group has ended shares the next statement",
    async run(context) {
      const { ranges, client, gate, first } = await held(context);
      const rounds = 3;
      // As an application calls: through functions of its own.
      const draw = async (depth: number): Promise<Range> =>
        depth > 0 ? await draw(depth - 1) : await ranges.reserve("order", 1);
      const calling = Array.from({ length: 5 }, async () => {
        for (let round = 0; round < rounds; round++) await draw(8);
      });
      gate.open();
      await first;
      for (let round = 0; round < rounds; round++) await openNext(gate);
      await Promise.all(calling);
      checkEqual(client.names.length, 1 + rounds, "the statements");
    },
  },
  {
    name: "a call without company is sent at once",
    async run(context) {
      const runtime = new ManualRuntime();
      const { ranges } = await context.open({ runtime });
      for (let round = 0n; round < 3n; round++) {
        checkEqual((await ranges.reserve("order", 1)).start, 1n + round);
      }
      checkEqual(runtime.monotonicMs(), 0, "the time that passed");
      checkEqual(runtime.timers, 0, "the timers left behind");
    },
  },
  {
    name: "calls of other keys do not wait",
    async run(context) {
      const { ranges, client, gate, first } = await held(context);
      client.interfere = ({ send }) => send();
      checkEqual(await ranges.reserve("invoice", 3), { start: 1n, end: 4n });
      gate.open();
      await first;
    },
  },
  {
    name: "calls with different initialOffset share no statement",
    async run(context) {
      const { ranges, client, gate, first } = await held(context);
      const waiting = [1, 1, 700, 700, 1].map((initialOffset) =>
        ranges.reserve("order", 1, { initialOffset })
      );
      gate.open();
      await first;
      for (let group = 0; group < 3; group++) await openNext(gate);
      const starts = (await Promise.all(waiting)).map(({ start }) => start);
      checkEqual(starts, [2n, 3n, 4n, 5n, 6n]);
      checkEqual(client.names.length, 4, "the statements");
    },
  },
  {
    name: "a sum that would pass 2^63 - 1 is not formed",
    async run(context) {
      const { ranges, client, gate, first } = await held(context);
      const half = 2n ** 62n;
      const fits = ranges.reserve("order", half);
      const tooMuch = ranges.reserve("order", half);
      tooMuch.catch(() => {});
      gate.open();
      await openNext(gate);
      await openNext(gate);
      await first;
      checkEqual(await fits, { start: 2n, end: 2n + half });
      const error = await checkRejects(tooMuch, RangeExhaustedError);
      checkEqual([error.nextValue, error.size], [2n + half, half]);
      checkEqual(client.names.filter((name) => name === "range.reserve").length, 3);
    },
  },
  {
    name: "in a group that meets exhaustion a greedy call starves nobody",
    async run(context) {
      const { ranges, gate, first } = await held(context, { initialOffset: max - 11n });
      const waiting = [4n, 8n, 3n, 3n, 1n].map((size) => ranges.reserve("order", size));
      const results = Promise.allSettled(waiting);
      gate.open();
      await first;
      for (let statement = 0; statement < 6; statement++) await openNext(gate);
      const outcome = (await results).map((result) =>
        result.status === "fulfilled" ? result.value.start : result.reason.constructor.name
      );
      checkEqual(outcome, [
        max - 10n,
        "RangeExhaustedError",
        max - 6n,
        max - 3n,
        "RangeExhaustedError",
      ]);
    },
  },
  {
    name: "in a group of a sealed key every call is told so",
    async run(context) {
      const { ranges, gate, first } = await held(context);
      const waiting = [ranges.reserve("order", 2), ranges.reserve("order", 3)];
      const results = Promise.allSettled(waiting);
      gate.open();
      await first;
      await gate.arrival();
      const other = await context.open();
      await other.ranges.seal("order");
      gate.open();
      for (const result of await results) {
        checkEqual(result.status === "rejected" && result.reason instanceof RangeSealedError, true);
      }
    },
  },
  {
    name: "a call whose time ends before its group is sent reserves nothing",
    async run(context) {
      const { ranges, client, gate, runtime, first } = await held(context);
      const hasty = ranges.reserve("order", 50, { timeoutMs: 100 });
      const patient = ranges.reserve("order", 5);
      hasty.catch(() => {});
      runtime.advance(100);
      const error = await checkRejects(hasty, TimeoutError);
      checkEqual(error.outcome, "nothing");
      gate.open();
      await openNext(gate);
      await first;
      checkEqual(await patient, { start: 2n, end: 7n });
      checkEqual(client.names.length, 2, "the statements");
    },
  },
  {
    name: "a call whose time ends after its group was sent leaves a gap",
    async run(context) {
      const { ranges, gate, runtime, first } = await held(context);
      const hasty = ranges.reserve("order", 50, { timeoutMs: 100 });
      const patient = ranges.reserve("order", 5);
      hasty.catch(() => {});
      gate.open();
      await first;
      await gate.arrival();
      runtime.advance(100);
      const error = await checkRejects(hasty, TimeoutError);
      checkEqual(error.outcome, "unknown");
      gate.open();
      checkEqual(await patient, { start: 52n, end: 57n });
    },
  },
  {
    name: "a group has until the latest deadline of its calls, then the next group goes",
    async run(context) {
      const { ranges, client, gate, runtime, first } = await held(context);
      const [short, long] = [
        ranges.reserve("order", 1, { timeoutMs: 1_000 }),
        ranges.reserve("order", 1, { timeoutMs: 9_000 }),
      ];
      const results = Promise.allSettled([short, long]);
      gate.open();
      await first;
      await gate.arrival();
      const next = ranges.reserve("order", 1, { timeoutMs: 60_000 });
      runtime.advance(8_999);
      await settle();
      checkEqual(client.names.length, 2, "the statements before the deadline");
      runtime.advance(1);
      for (const result of await results) {
        checkEqual(result.status === "rejected" && result.reason instanceof TimeoutError, true);
      }
      client.interfere = ({ send }) => send();
      checkEqual((await next).start, 2n);
    },
  },
  {
    name: "an aborted call that waits reserves nothing, and ends no other",
    async run(context) {
      const { ranges, client, gate, first } = await held(context);
      const controller = new AbortController();
      const aborted = ranges.reserve("order", 50, { signal: controller.signal });
      const other = ranges.reserve("order", 5);
      aborted.catch(() => {});
      const reason = new Error("enough");
      controller.abort(reason);
      checkEqual(await aborted.catch((error) => error === reason), true, "the reason");
      gate.open();
      await openNext(gate);
      await first;
      checkEqual(await other, { start: 2n, end: 7n });
      checkEqual(client.names.length, 2, "the statements");
    },
  },
  {
    name: "an error of a group reaches each of its calls, and the key goes on",
    async run(context) {
      const { ranges, client, gate, first } = await held(context);
      const waiting = [ranges.reserve("order", 2), ranges.reserve("order", 3)];
      const results = Promise.allSettled(waiting);
      client.interfere = () => Promise.reject(new Error("connection lost"));
      gate.open();
      await first;
      for (const result of await results) {
        checkEqual(result.status === "rejected" && result.reason instanceof StoreError, true);
      }
      client.interfere = ({ send }) => send();
      checkEqual(await ranges.reserve("order", 2), { start: 2n, end: 4n });
    },
  },
  {
    name: "with groupReserve off no call waits for another",
    async run(context) {
      const gate = new Gate();
      const client = await watched(context);
      const { ranges } = await context.open({ client, groupReserve: false });
      client.interfere = async ({ send }) => {
        await gate.pass();
        return await send();
      };
      const calls = [1, 2, 3].map((size) => ranges.reserve("order", size));
      for (let call = 0; call < calls.length; call++) await gate.arrival();
      for (let call = 0; call < calls.length; call++) gate.open();
      await Promise.all(calls);
    },
  },
];
