import {
  InTransactionError,
  ReserveConflictError,
  StoreClosedError,
  StoreError,
  TimeoutError,
} from "../../../core/errors.ts";
import type { StoreEvent } from "../../../core/events.ts";
import { maxAttempts } from "../../../core/retry.ts";
import type { QueryResult } from "../../../core/sql/row.ts";
import { Identifier, sql } from "../../../core/sql/statement.ts";
import { check, checkEqual, checkRejects } from "../check.ts";
import { contains, Gate, StagedError, withStagedErrors } from "../clients.ts";
import type { TckCase, TckContext } from "../context.ts";
import { ManualRuntime } from "../manual_runtime.ts";
import { checkHeldUp, execute, rewind, settle, tableOf, watched } from "./common.ts";

/** A runtime whose waits are over at once. */
class HastyRuntime extends ManualRuntime {
  /** The waits between attempts. */
  readonly waits: number[] = [];

  override setTimer(callback: () => void, ms: number) {
    const timer = super.setTimer(callback, ms);
    if (ms < 1_000) {
      this.waits.push(ms);
      queueMicrotask(() => this.advance(ms));
    }
    return timer;
  }
}

interface Rewound {
  readonly name: string;
  /** Where the database's value goes back to, from 101. */
  readonly to: bigint;
  readonly size: bigint;
  readonly behindBy: bigint;
}

const rewound: readonly Rewound[] = [
  { name: "wholly, below the size", to: 1n, size: 10n, behindBy: 100n },
  { name: "partly, into the middle of a range", to: 51n, size: 10n, behindBy: 50n },
  { name: "by one", to: 100n, size: 1_000n, behindBy: 1n },
];

const rewoundCases: readonly TckCase[] = rewound.map(({ name, to, size, behindBy }) => ({
  name: `a value that went backwards hands out nothing: ${name}`,
  async run(context: TckContext) {
    const events: StoreEvent[] = [];
    const onEvent = (event: StoreEvent) => void events.push(event);
    const { ranges } = await context.open({ onEvent });
    await ranges.reserve("order", 100);
    await rewind(context, "order", to);
    const error = await checkRejects(ranges.reserve("order", size), ReserveConflictError);
    checkEqual([error.key, error.returned, error.behindBy], ["order", to + size, behindBy]);
    checkEqual(events.at(-1), { type: "conflict", key: "order", returned: to + size, behindBy });
    checkEqual(await ranges.advance("order", 101), to + size > 101n ? to + size : 101n);
    const next = await ranges.reserve("order", 1);
    check(next.start >= 101n, "after advance no value comes twice");
  },
}));

/** What may go wrong between a caller and the row. */
export const faultCases: readonly TckCase[] = [
  ...rewoundCases,
  {
    name: "a value below the size cannot be the one that was written, also for a new process",
    async run(context) {
      const { ranges } = await context.open();
      await ranges.advance("order", 50);
      await rewind(context, "order", -5n);
      const error = await checkRejects(ranges.reserve("order", 10), ReserveConflictError);
      checkEqual([error.returned, error.behindBy], [5n, 5n]);
    },
  },
  {
    name: "a value that did not go backwards is no conflict, whoever moved it",
    async run(context) {
      const [one, other] = [await context.open(), await context.open()];
      await one.ranges.reserve("order", 100);
      checkEqual(await one.ranges.reserve("order", 1), { start: 101n, end: 102n });
      await other.ranges.advance("order", 5_000);
      checkEqual(await one.ranges.reserve("order", 1), { start: 5_000n, end: 5_001n });
    },
  },
  {
    name: "no value for a key that is neither sealed nor full is a conflict",
    async run(context) {
      const client = await watched(context);
      const { ranges } = await context.open({ client });
      await ranges.reserve("order", 10);
      client.interfere = ({ name, send }) =>
        name === "range.reserve" ? Promise.resolve(undefined) : send();
      const error = await checkRejects(ranges.reserve("order", 10), ReserveConflictError);
      checkEqual([error.returned, error.behindBy], [undefined, undefined]);
    },
  },
  {
    name: "the answer to another reserve hands out nothing, whatever its value",
    async run(context) {
      let late: QueryResult | undefined;
      const client = await watched(context, async ({ name, send }) => {
        const result = await send();
        if (name !== "range.reserve") return result;
        const given = late ?? result;
        late = result;
        return given;
      });
      const { ranges } = await context.open({ client });
      await ranges.reserve("order", 100);
      const invoice = ranges.reserve("invoice", 1);
      await checkRejects(invoice, ReserveConflictError);
      checkEqual(await ranges.read("invoice"), { nextValue: 2n, sealed: false });
    },
  },
  {
    name: "a count of 0 rows is no answer: whether a row was changed is read",
    async run(context) {
      const client = await watched(context);
      const { ranges } = await context.open({ client });
      await ranges.reserve("order", 10);
      client.interfere = async ({ statement, send }) => {
        const result = await send();
        const counts = statement?.strings[0]?.trim().startsWith("update");
        return counts && result ? { ...result, affected: 0 } : result;
      };
      checkEqual(await ranges.advance("order", 100), 100n);
      checkEqual(await ranges.advance("order", 100), 100n);
      await ranges.seal("order");
      await ranges.seal("order");
      checkEqual(await ranges.read("order"), { nextValue: 100n, sealed: true });
    },
  },
  {
    name: "what the database rolled back is repeated, after a wait",
    async run(context) {
      for (const kind of ["deadlock", "serialization"] as const) {
        const events: StoreEvent[] = [];
        const runtime = new HastyRuntime();
        const client = await watched(context);
        const { ranges } = await context.open({
          client,
          runtime,
          dialect: withStagedErrors(context.dialect),
          onEvent: (event) => void events.push(event),
        });
        runtime.waits.length = 0;
        let failures = 3;
        client.interfere = ({ send }) =>
          failures-- > 0 ? Promise.reject(new StagedError(kind)) : send();
        checkEqual(await ranges.reserve(kind, 10), { start: 1n, end: 11n });
        const retries = events.flatMap((event) =>
          event.type === "retry" ? [[event.statement, event.kind, event.attempt]] : []
        );
        checkEqual(retries, [1, 2, 3].map((attempt) => ["range.reserve", kind, attempt]));
        check(runtime.waits.length === 3 && runtime.waits.every((ms) => ms > 0), "each waits");
      }
    },
  },
  {
    name: "repeating has a bound",
    async run(context) {
      const client = await watched(context);
      const dialect = withStagedErrors(context.dialect);
      const { ranges } = await context.open({ client, dialect, runtime: new HastyRuntime() });
      client.sent.length = 0;
      client.interfere = () => Promise.reject(new StagedError("deadlock"));
      const error = await checkRejects(ranges.reserve("order", 10), StoreError);
      checkEqual([error.kind, error.statement], ["deadlock", "range.reserve"]);
      check(error.cause instanceof StagedError, "the driver's error is the cause");
      checkEqual(client.names.length, maxAttempts, "the attempts");
    },
  },
  {
    name: "a reserve whose outcome is unknown leaves a gap and is not repeated",
    async run(context) {
      const client = await watched(context);
      const dialect = withStagedErrors(context.dialect);
      const { ranges } = await context.open({ client, dialect, runtime: new HastyRuntime() });
      await ranges.reserve("order", 10);
      client.sent.length = 0;
      client.interfere = async ({ send }) => {
        await send();
        throw new StagedError("connection");
      };
      const error = await checkRejects(ranges.reserve("order", 10), StoreError);
      checkEqual(error.kind, "connection");
      checkEqual(client.names, ["range.reserve"]);
      client.interfere = ({ send }) => send();
      checkEqual(await ranges.reserve("order", 10), { start: 21n, end: 31n });
    },
  },
  {
    name: "an error of no known kind is not repeated, and its message holds no value",
    async run(context) {
      const client = await watched(context);
      const { ranges } = await context.open({ client, runtime: new HastyRuntime() });
      client.sent.length = 0;
      const cause = new Error("the driver says s3cr3t");
      client.interfere = () => Promise.reject(cause);
      const error = await checkRejects(ranges.reserve("k3y", 12_345), StoreError);
      checkEqual([error.kind, error.cause === cause], ["other", true]);
      checkEqual(client.names.length, 1, "the attempts");
      for (const part of ["s3cr3t", "k3y", "12345"]) {
        check(!error.message.includes(part), `the message holds ${part}`);
      }
    },
  },
  {
    name: "a client that never answers holds a call no longer than its deadline",
    async run(context) {
      const client = await watched(context);
      const runtime = new ManualRuntime();
      const { ranges } = await context.open({ client, runtime });
      client.interfere = () => new Promise(() => {});
      const calls = [
        ranges.reserve("a", 1, { timeoutMs: 700 }),
        ranges.seal("b", { timeoutMs: 700 }),
        ranges.advance("c", 1, { timeoutMs: 700 }),
        ranges.read("d", { timeoutMs: 700 }),
      ];
      const results = Promise.allSettled(calls);
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
    name: "a call without a deadline of its own has the store's",
    async run(context) {
      const client = await watched(context);
      const runtime = new ManualRuntime();
      const { ranges } = await context.open({ client, runtime, timeoutMs: 1_234 });
      client.interfere = () => new Promise(() => {});
      const call = checkRejects(ranges.reserve("order", 1), TimeoutError);
      await settle();
      runtime.advance(1_234);
      checkEqual((await call).timeoutMs, 1_234);
    },
  },
  {
    name: "a call whose signal has aborted sends nothing",
    async run(context) {
      const client = await watched(context);
      const { ranges } = await context.open({ client });
      client.sent.length = 0;
      const reason = new Error("enough");
      const options = { signal: AbortSignal.abort(reason) };
      for (
        const call of [
          () => ranges.reserve("order", 1, options),
          () => ranges.seal("order", options),
          () => ranges.advance("order", 1, options),
          () => ranges.read("order", options),
        ]
      ) checkEqual(await call().then(() => "done", (error) => error === reason), true);
      checkEqual(client.names, []);
    },
  },
  {
    name: "a store whose opening takes too long, or is aborted, is not opened",
    async run(context) {
      const client = await watched(context);
      client.interfere = () => new Promise(() => {});
      const runtime = new ManualRuntime();
      const late = checkRejects(context.open({ client, runtime, timeoutMs: 700 }), TimeoutError);
      const controller = new AbortController();
      const aborted = context.open({ client, runtime, signal: controller.signal })
        .then(() => "opened", (error) => error);
      await settle();
      runtime.advance(700);
      await late;
      const reason = new Error("enough");
      controller.abort(reason);
      check(await aborted === reason, "it rejects with the reason");
    },
  },
  {
    name: "a call whose signal aborts under way rejects with the reason and leaves a gap",
    async run(context) {
      const gate = new Gate();
      const client = await watched(context);
      const { ranges } = await context.open({ client });
      client.interfere = async ({ send }) => {
        const result = await send();
        await gate.pass();
        return result;
      };
      const controller = new AbortController();
      const call = ranges.reserve("order", 10, { signal: controller.signal });
      await gate.arrival();
      const reason = new Error("enough");
      controller.abort(reason);
      checkEqual(await call.then(() => "done", (error) => error === reason), true);
      gate.open();
      client.interfere = ({ send }) => send();
      checkEqual(await ranges.reserve("order", 10), { start: 11n, end: 21n });
    },
  },
  {
    name: "a row lock held past the deadline ends the call, and once it goes the client works on",
    async run(context) {
      const client = await context.client();
      const { ranges } = await context.open({ client });
      await ranges.reserve("order", 10);
      const table = tableOf(context);
      const lock = await context.begin();
      await lock.session.query(
        sql`update ${table} set sealed = ${false} where range_key = ${"order"}`,
      );
      await checkHeldUp(ranges.reserve("order", 10, { timeoutMs: 150 }));
      await lock.rollback();
      const other = await context.open();
      const given = [
        await ranges.reserve("order", 10),
        await other.ranges.reserve("order", 10),
        await ranges.reserve("order", 10),
      ];
      given.reduce((end, range) => {
        check(range.start >= end, "no value comes twice");
        return range.end;
      }, 11n);
    },
  },
  {
    name:
      "inside a transaction of the application's nothing is reserved that its rollback takes back",
    async run(context) {
      const { ranges } = await context.open();
      await ranges.reserve("order", 10);
      const inside = await context.inside();
      const reserveInside = async () => {
        const store = await inside.open({ initSchema: false, timeoutMs: 200 });
        return await store.ranges.reserve("order", 10);
      };
      await checkRejects(reserveInside(), InTransactionError);
      await inside.rollback();
      checkEqual(await ranges.reserve("order", 10), { start: 11n, end: 21n });
    },
  },
  {
    name: "a table that is dropped underneath is an error of its kind, which says how to create it",
    async run(context) {
      const { ranges } = await context.open();
      await ranges.reserve("order", 10);
      await execute(context, sql`drop table ${tableOf(context)}`);
      for (
        const call of [
          () => ranges.reserve("order", 1),
          () => ranges.seal("order"),
          () => ranges.advance("order", 1),
          () => ranges.read("order"),
        ]
      ) {
        const error = await checkRejects(call(), StoreError);
        checkEqual(error.kind, "missingTable");
        check(error.message.includes("initSchema"), error.message);
      }
      await context.open();
    },
  },
  {
    name: "the reason, and every other recheck, is read from the primary: locked, with the clock",
    async run(context) {
      const { dialect } = context;
      const client = await watched(context);
      const { ranges } = await context.open({ client });
      await ranges.seal("order");
      client.sent.length = 0;
      await ranges.reserve("order", 1).catch(() => {});
      await ranges.advance("order", 1).catch(() => {});
      await ranges.seal("order");
      await ranges.read("order");
      const reads = client.sent.filter(({ name, statement }) =>
        name === "range.reason" || name === "range.read" ||
        statement === undefined || contains(statement, dialect.nowMillis)
      );
      checkEqual(reads.length, 4, "the reads");
      for (const { name, statement } of reads) {
        if (statement === undefined) {
          checkEqual(dialect.lockRow, undefined, "a read in a transaction");
          continue;
        }
        check(contains(statement, dialect.nowMillis), `${name} contains the clock`);
        if (name !== "range.read") {
          const lock = dialect.lockRow?.hint ?? dialect.lockRow?.clause;
          check(lock !== undefined && contains(statement, lock), `${name} locks`);
        }
      }
    },
  },
  {
    name: "the store clock is UTC milliseconds, whatever the session",
    async run(context) {
      const { dialect } = context;
      const table = Identifier.parse(context.tables.rangeTable, "rangeTable");
      await context.open();
      await execute(
        context,
        sql`insert into ${table} (range_key, next_value) values (${"clock"}, ${1n})`,
      );
      const beforeMs = Date.now();
      const { rows } = await execute(
        context,
        sql`select ${dialect.nowMillis} as now_ms from ${table}`,
      );
      const afterMs = Date.now();
      const nowMs = rows[0]?.number("now_ms") ?? 0;
      check(nowMs >= beforeMs - 2 && nowMs <= afterMs + 2, `${nowMs} is ${beforeMs} to ${afterMs}`);
    },
  },
  {
    name: "an observer sees what was reserved, and one that throws changes nothing",
    async run(context) {
      const events: StoreEvent[] = [];
      const { ranges } = await context.open({
        onEvent(event) {
          events.push(event);
          throw new Error("the observer failed");
        },
      });
      events.length = 0;
      checkEqual(await ranges.reserve("order", 10), { start: 1n, end: 11n });
      const [event] = events;
      check(event?.type === "reserve", "it is a reserve");
      checkEqual([event.key, event.start, event.end, event.calls], ["order", 1n, 11n, 1]);
      check(event.durationMs >= 0, "it says how long it took");
    },
  },
  {
    name: "an observer that is asynchronous may fail without a word",
    async run(context) {
      const { ranges } = await context.open({
        onEvent: async () => {
          await Promise.resolve();
          throw new Error("the observer failed later");
        },
      });
      checkEqual(await ranges.reserve("order", 10), { start: 1n, end: 11n });
      await settle();
    },
  },
  {
    name: "a store that was closed refuses, and leaves the client that it was given open",
    async run(context) {
      const client = await context.client();
      const store = await context.open({ client });
      await store.ranges.reserve("order", 10);
      await store.close();
      await store.close();
      for (
        const call of [
          () => store.ranges.reserve("order", 1),
          () => store.ranges.seal("order"),
          () => store.ranges.advance("order", 1),
          () => store.ranges.read("order"),
        ]
      ) await checkRejects(call(), StoreClosedError);
      const again = await context.open({ client });
      checkEqual(await again.ranges.reserve("order", 10), { start: 11n, end: 21n });
    },
  },
];
