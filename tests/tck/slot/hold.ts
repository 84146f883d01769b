import {
  LeaseLostError,
  type LeaseLostReason,
  StoreError,
  type StoreErrorKind,
} from "../../../core/errors.ts";
import type { StoreEvent } from "../../../core/events.ts";
import { type Runtime, systemRuntime, type Timer } from "../../../core/runtime.ts";
import type { HoldOptions } from "../../../core/slot/slot_arguments.ts";
import type { SlotHold } from "../../../core/slot/slot_hold.ts";
import type { SlotLease } from "../../../core/slot/slot_lease.ts";
import type { SlotState } from "../../../core/slot/slot_store.ts";
import type { Client } from "../../../core/sql/client.ts";
import type { Dialect } from "../../../core/sql/dialect.ts";
import { Identifier, sql } from "../../../core/sql/statement.ts";
import type { Store, StoreOptions } from "../../../core/store.ts";
import { check, checkEqual, checkRejects } from "../check.ts";
import { type Interference, type Sent, WatchedClient } from "../clients.ts";
import type { TckCase, TckContext, TckOpenOptions } from "../context.ts";
import { execute } from "../range/common.ts";

interface Pending {
  readonly atMs: number;
  readonly callback: () => void;
  referenced: boolean;
}

/**
 * A machine whose clocks a case moves, together or apart. A timer fires when the case lets time pass,
 * not when the clocks jump.
 */
export class HostRuntime implements Runtime {
  /** Whether a timer can be unreferenced, which it cannot on every platform. */
  canUnref = true;
  #realMs: number;
  #sleptMs = 0;
  #wallByMs = 0;
  #pending: Pending[] = [];

  /** @param nowMs What time it is. */
  constructor(nowMs: number) {
    this.#realMs = nowMs;
  }

  /** What time it is, whatever this machine's clocks say. */
  get realMs(): number {
    return this.#realMs;
  }

  /** How many timers are set. */
  get timers(): number {
    return this.#pending.length;
  }

  /** How many timers keep the process alive. */
  get referenced(): number {
    return this.#pending.filter(({ referenced }) => referenced).length;
  }

  /** When the next timer is due, on the monotonic clock. */
  get dueMs(): number | undefined {
    const [first] = this.#pending.toSorted((a, b) => a.atMs - b.atMs);
    return first?.atMs;
  }

  /** The host's clock. */
  wallMs(): number {
    return this.#realMs + this.#wallByMs;
  }

  /** The monotonic clock. */
  monotonicMs(): number {
    return this.#realMs - this.#sleptMs - 1_000_000_000_000;
  }

  /** Sets a timer. */
  setTimer(callback: () => void, ms: number): Timer {
    const pending = { atMs: this.monotonicMs() + ms, callback, referenced: true };
    this.#pending.push(pending);
    const cancel = () => void this.#remove(pending);
    if (!this.canUnref) return { cancel };
    return {
      cancel,
      ref: () => void (pending.referenced = true),
      unref: () => void (pending.referenced = false),
    };
  }

  /** The middle of all random numbers. */
  random(): number {
    return 0.5;
  }

  /** A random UUID. */
  uuid(): string {
    return crypto.randomUUID();
  }

  /** Lets time pass, and fires the timers that come due, in their order. */
  advance(ms: number): void {
    const untilMs = this.monotonicMs() + ms;
    for (;;) {
      const [first] = this.#pending.toSorted((a, b) => a.atMs - b.atMs);
      if (first === undefined || first.atMs > untilMs) break;
      this.#remove(first);
      this.#realMs += Math.max(0, first.atMs - this.monotonicMs());
      first.callback();
    }
    this.#realMs += untilMs - this.monotonicMs();
  }

  /** Time passes while the event loop is blocked: no timer fires. */
  block(ms: number): void {
    this.#realMs += ms;
  }

  /** Time passes while the machine sleeps: the monotonic clock stands still, and no timer fires. */
  sleep(ms: number): void {
    this.#realMs += ms;
    this.#sleptMs += ms;
  }

  /** Somebody sets the host's clock, forward, or back by a negative number. */
  setWall(byMs: number): void {
    this.#wallByMs += byMs;
  }

  #remove(pending: Pending): void {
    this.#pending = this.#pending.filter((other) => other !== pending);
  }
}

/** A failure of the driver's, of a kind of the case's choice. */
export class StagedFailure extends Error {
  /** The kind. */
  readonly kind: StoreErrorKind;

  /** @param kind The kind. */
  constructor(kind: StoreErrorKind = "connection") {
    super(`staged ${kind}`);
    this.kind = kind;
  }
}

/** What a world is made of. */
export interface SlotWorldParts {
  /** The machine. */
  readonly runtime: HostRuntime;
  /** What reaches the database. */
  readonly client: Client;
  /** The dialect of the database. */
  readonly dialect: Dialect;
  /** Opens a store. */
  readonly open: (options: TckOpenOptions & { client: Client }) => Promise<Store>;
}

/** Stores on a machine of the case's own, whose way to the database it controls. */
export class SlotWorld {
  /** The machine. */
  readonly runtime: HostRuntime;
  /** What the stores send. */
  readonly client: WatchedClient;
  /** What the stores tell. */
  readonly events: StoreEvent[] = [];
  readonly #dialect: Dialect;
  readonly #open: SlotWorldParts["open"];
  readonly #stores: Store[] = [];
  #answer: Interference = ({ send }) => send();
  #sending = 0;
  #sends = 0;

  /** @param parts What it is made of. */
  constructor({ runtime, client, dialect, open }: SlotWorldParts) {
    this.runtime = runtime;
    this.#open = open;
    this.client = new WatchedClient(client);
    this.client.interfere = (sent) =>
      this.#answer({ ...sent, send: () => this.#counted(sent.send) });
    this.#dialect = Object.create(dialect);
    this.#dialect.classify = (error) =>
      error instanceof StagedFailure ? error.kind : dialect.classify(error);
  }

  /** Opens a store. */
  async open(options: StoreOptions = {}): Promise<Store> {
    const store = await this.#open({
      client: this.client,
      dialect: this.#dialect,
      runtime: this.runtime,
      onEvent: (event) => void this.events.push(event),
      ...options,
    });
    this.#stores.push(store);
    return store;
  }

  /** Closes its stores. */
  async close(): Promise<void> {
    this.mend();
    await Promise.all(this.#stores.map((store) => store.close()));
  }

  /** From now on the statements are answered so, or those of a name. */
  answer(answer: Interference, name?: string): void {
    this.#answer = (sent) => name === undefined || sent.name === name ? answer(sent) : sent.send();
  }

  /** From now on nothing reaches the database. */
  cut(): void {
    this.answer(() => Promise.reject(new StagedFailure()));
  }

  /** From now on everything does. */
  mend(): void {
    this.answer(({ send }) => send());
  }

  /** How often a statement was asked for. */
  count(name: string): number {
    return this.client.names.filter((sent) => sent === name).length;
  }

  /** The events of a type. */
  told<T extends StoreEvent["type"]>(type: T): Extract<StoreEvent, { type: T }>[] {
    return this.events.filter((event): event is Extract<StoreEvent, { type: T }> =>
      event.type === type
    );
  }

  /** Takes some time by the machine's clock, as a slow request or answer does. */
  wait(ms: number): Promise<void> {
    return new Promise((resolve) => this.runtime.setTimer(resolve, ms));
  }

  /** Lets time pass on the machine, and waits for all that comes due and for its answers. */
  async pass(ms: number): Promise<void> {
    const { runtime } = this;
    const untilMs = runtime.monotonicMs() + ms;
    await this.settle();
    for (let count = 0; (runtime.dueMs ?? Infinity) <= untilMs; count++) {
      check(count < 100_000, "timers fire without end");
      runtime.advance(Math.max(0, (runtime.dueMs ?? untilMs) - runtime.monotonicMs()));
      await this.settle();
    }
    runtime.advance(untilMs - runtime.monotonicMs());
    await this.settle();
  }

  /** Waits until the database has answered, and nothing more happens by itself. */
  async settle(): Promise<void> {
    for (let idle = 0; idle < 2; idle++) {
      const sends = this.#sends;
      await turn();
      if (this.#sending > 0) {
        // A driver needs the event loop, for as long as it takes.
        await new Promise<void>((resolve) => systemRuntime.setTimer(resolve, 1));
        idle = -1;
      } else if (sends !== this.#sends) idle = -1;
    }
  }

  async #counted(send: Sent["send"]): ReturnType<Sent["send"]> {
    this.#sending++;
    this.#sends++;
    try {
      return await send();
    } finally {
      this.#sending--;
    }
  }
}

/** Lets every promise that is ready to settle do so, and the event loop turn once. */
async function turn(): Promise<void> {
  // A message may come before promises that wait for each other are through.
  for (let count = 0; count < 50; count++) await Promise.resolve();
  await new Promise<void>((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(undefined);
  });
}

/** Runs a case on a machine of its own, over the context's database and its clock. */
export function onMachine(
  run: (world: SlotWorld, context: TckContext) => Promise<void>,
): TckCase["run"] {
  return async (context) => {
    const world = new SlotWorld({
      runtime: new HostRuntime(Date.now()),
      client: await context.client(),
      dialect: context.dialect,
      open: (options) => context.open(options),
    });
    try {
      await run(world, context);
    } finally {
      await world.close();
    }
  };
}

/** Makes a lease look to the database as if it had expired long ago. */
export async function expire(context: TckContext, { namespace, slot }: SlotLease): Promise<void> {
  const table = Identifier.parse(context.tables.slotTable, "slotTable");
  await execute(
    context,
    sql`update ${table} set expires_at = ${1n} where namespace = ${namespace} and slot = ${slot}`,
  );
}

/** What the database says of the slot of a lease. */
export async function rowOf(store: Store, { namespace, slot }: SlotLease): Promise<SlotState> {
  const state = await store.slots.inspect(namespace);
  const found = state?.slots.find((row) => row.slot === slot);
  check(found !== undefined, `slot ${slot} of ${namespace} has no row`);
  return found;
}

/** Renewed every 10 s, trusted for 27 s, a renewal may take 5 s. */
const terms: HoldOptions = { namespace: "workers", limit: 1 };
const everyMs = 10_000;
const trustMs = 27_000;

/** However far ahead a window begins, the slot can be taken. */
const anyAhead = { maxAheadMs: 172_800_000 };

/** Fails unless the lease is lost for that reason. */
function checkLost({ held, signal }: SlotHold, reason: LeaseLostReason): void {
  checkEqual([held, signal.aborted], [false, true], "it is lost");
  check(signal.reason instanceof LeaseLostError, "the signal's reason is a LeaseLostError");
  checkEqual(signal.reason.reason, reason, "why it is lost");
}

/** A lease that is kept renewed. */
export const holdCases: readonly TckCase[] = [
  {
    name: "a hold renews its lease by itself, every renewEveryMs, and the row lasts longer",
    run: onMachine(async (world) => {
      const store = await world.open();
      const hold = await store.slots.hold(terms);
      const before = await rowOf(store, hold.lease);
      await world.pass(everyMs - 1);
      checkEqual(world.count("slot.renew"), 0, "the renewals so far");
      await world.pass(1 + 4 * everyMs);
      checkEqual([world.told("renew").length, hold.held], [5, true], "the renewals");
      checkEqual(world.runtime.referenced, 0, "the timers that keep the process alive");
      const after = await rowOf(store, hold.lease);
      checkEqual([after.state, after.fence, after.ownerKey], ["held", 1, hold.lease.ownerKey]);
      check(after.expiresAtMs >= before.expiresAtMs, "the expiry rises");
      check(after.ceilingMs >= hold.lease.ceilingMs, "the ceiling is not above the row's");
    }),
  },
  {
    name: "every hold of a store is renewed, whatever its namespace and slot",
    run: onMachine(async (world) => {
      const { slots } = await world.open();
      const holds: SlotHold[] = [];
      for (const namespace of ["a", "A", "b"]) {
        for (let count = 0; count < 2; count++) {
          holds.push(await slots.hold({ namespace, limit: 2 }));
        }
      }
      await world.pass(3 * everyMs);
      const renewed = holds.map(({ lease }) =>
        world.told("renew").filter(({ namespace, slot }) =>
          namespace === lease.namespace && slot === lease.slot
        ).length
      );
      checkEqual(renewed, [3, 3, 3, 3, 3, 3], "the renewals of each");
      check(holds.every(({ held }) => held), "all are held");
    }),
  },
  {
    name: "a hold whose event loop was blocked too long is lost at once, and frees its slot",
    run: onMachine(async (world) => {
      const store = await world.open();
      const hold = await store.slots.hold(terms);
      world.runtime.block(trustMs);
      checkLost(hold, "expired");
      await checkRejects(hold.renew(), LeaseLostError);
      await world.pass(60_000);
      checkEqual(world.count("slot.renew"), 0, "the renewals");
      checkEqual((await rowOf(store, hold.lease)).state, "held");
      await hold.release();
      checkEqual((await rowOf(store, hold.lease)).state, "free");
    }),
  },
  {
    name: "a machine that slept holds its lease again once a renewal has succeeded",
    run: onMachine(async (world, context) => {
      const hold = await (await world.open()).slots.hold(terms);
      await expire(context, hold.lease);
      world.runtime.sleep(trustMs);
      checkEqual([hold.held, hold.held], [false, false], "before the renewal");
      await world.settle();
      checkEqual([hold.held, world.count("slot.renew")], [true, 1], "after the renewal");
      check(!hold.signal.aborted, "it was never lost");
    }),
  },
  {
    name:
      "a machine that slept while another took its slot has lost it, and leaves it to the other",
    run: onMachine(async (world, context) => {
      const store = await world.open();
      const hold = await store.slots.hold(terms);
      await expire(context, hold.lease);
      world.runtime.sleep(40_000);
      const other = await (await context.open()).slots.hold({ ...terms, ...anyAhead });
      checkEqual(hold.held, false);
      await world.settle();
      checkLost(hold, "replaced");
      const { namespace, slot, fence } = hold.lease;
      checkEqual(
        world.told("lost"),
        [{ type: "lost", namespace, slot, fence, reason: "replaced" }],
      );
      await hold.release();
      const row = await rowOf(store, other.lease);
      checkEqual([row.state, row.fence, row.ownerKey], ["held", fence + 1, other.lease.ownerKey]);
      check(other.lease.floorMs > hold.lease.ceilingMs, "the windows do not overlap");
      await other.release();
    }),
  },
  {
    name: "a renewal whose answer is lost is repeated, and the lease survives",
    run: onMachine(async (world) => {
      const store = await world.open();
      const hold = await store.slots.hold(terms);
      let lost = 0;
      world.answer(async ({ send }) => {
        const result = await send();
        if (++lost % 3 !== 0) throw new StagedFailure();
        return result;
      }, "slot.renew");
      await world.pass(10 * everyMs);
      check(hold.held, "it is held");
      check(world.told("renewFailed").length >= 10, "answers were lost");
      const row = await rowOf(store, hold.lease);
      checkEqual([row.state, row.fence], ["held", 1]);
      check(hold.lease.ceilingMs <= row.ceilingMs, "the ceiling is not above the row's");
    }),
  },
  {
    name: "a hold whose acquire was answered by nothing is found, trusted and renewed at once",
    run: onMachine(async (world) => {
      const store = await world.open();
      await (await store.slots.hold({ ...terms, stamps: false })).release();
      let lost = 0;
      world.answer(async ({ send }) => {
        const result = await send();
        if (lost++ === 0) throw new StagedFailure();
        return result;
      }, "slot.acquire");
      const hold = await store.slots.hold(terms);
      checkEqual([hold.lease.fence, hold.held], [2, true], "the one that was written");
      await world.pass(1);
      checkEqual([world.told("renew").length, hold.held], [1, true], "the renewals");
      checkEqual((await rowOf(store, hold.lease)).fence, 2);
    }),
  },
  {
    name: "a database that is away for less than the trust costs no lease, for longer it does",
    run: onMachine(async (world) => {
      const store = await world.open();
      const hold = await store.slots.hold(terms);
      world.cut();
      await world.pass(trustMs - 1_000);
      check(hold.held, "it is held until then");
      world.mend();
      await world.pass(everyMs);
      check(hold.held, "it is held again");
      world.cut();
      await world.pass(trustMs);
      checkLost(hold, "expired");
      world.mend();
      await world.pass(60_000);
      checkLost(hold, "expired");
      checkEqual((await rowOf(store, hold.lease)).fence, 1, "it was not acquired again");
    }),
  },
  {
    name: "a renewal that is answered late stretches nothing",
    run: onMachine(async (world) => {
      const hold = await (await world.open()).slots.hold(terms);
      world.answer(async ({ send }) => {
        const result = await send();
        await world.wait(4_000);
        return result;
      }, "slot.renew");
      await world.pass(everyMs + 4_000);
      checkEqual(world.told("renew").length, 1, "the renewals");
      world.cut();
      await world.pass(trustMs - 4_000 - 1);
      check(hold.held, "it is held as long as it is trusted");
      await world.pass(1);
      checkLost(hold, "expired");
    }),
  },
  {
    name: "without a background a lease is renewed by hand only",
    run: onMachine(async (world) => {
      const hold = await (await world.open()).slots.hold({ ...terms, background: false });
      await world.pass(trustMs - 1);
      checkEqual([world.count("slot.renew"), hold.held], [0, true]);
      await Promise.all([hold.renew(), hold.renew()]);
      await world.pass(trustMs - 1);
      checkEqual([world.told("renew").length, hold.held], [1, true]);
      await world.pass(1);
      checkLost(hold, "expired");
    }),
  },
  {
    name: "a server that has become read-only takes the lease away",
    run: onMachine(async (world) => {
      const hold = await (await world.open()).slots.hold(terms);
      world.answer(() => Promise.reject(new StagedFailure("readOnly")), "slot.renew");
      await world.pass(everyMs);
      checkLost(hold, "readOnly");
    }),
  },
  {
    name: "the repeat of a release whose answer was lost changes nothing, and succeeds",
    run: onMachine(async (world) => {
      const store = await world.open();
      const hold = await store.slots.hold(terms);
      const lastUsedMs = hold.lease.floorMs + 5;
      let lost = 0;
      world.answer(async ({ send }) => {
        const result = await send();
        if (lost++ === 0) throw new StagedFailure();
        return result;
      }, "slot.release");
      await checkRejects(hold.release({ lastUsedMs }), StoreError);
      checkEqual(world.told("releaseFailed").length, 1);
      const row = await rowOf(store, hold.lease);
      checkEqual([row.state, row.nextFloorMs], ["free", lastUsedMs + 1]);
      await hold.release({ lastUsedMs: hold.lease.ceilingMs });
      checkEqual(await rowOf(store, hold.lease), row);
      checkLost(hold, "released");
    }),
  },
  {
    name: "a hold that stamps nothing gives its whole window back, as often as it is taken",
    run: onMachine(async (world) => {
      const store = await world.open();
      for (let fence = 1; fence <= 5; fence++) {
        const hold = await store.slots.hold({ ...terms, stamps: false });
        checkEqual([hold.lease.fence, hold.lease.floorMs], [fence, 0]);
        await hold.renew();
        await hold.release();
        checkEqual((await rowOf(store, hold.lease)).nextFloorMs, 0, "the next floor");
      }
    }),
  },
  {
    name: "a store that closes releases its holds, and leaves those of others",
    run: onMachine(async (world, context) => {
      const other = await context.open();
      const kept = await other.slots.hold({ namespace: "workers", limit: 4 });
      const store = await world.open();
      const holds: SlotHold[] = [];
      for (let count = 0; count < 3; count++) {
        holds.push(await store.slots.hold({ namespace: "workers", limit: 4 }));
      }
      await store.close();
      for (const hold of holds) checkLost(hold, "released");
      const state = await other.slots.inspect("workers");
      checkEqual(
        state?.slots.filter((row) => row.state !== "free").map(({ slot }) => slot),
        [kept.lease.slot],
        "the slots that are held",
      );
      check(kept.held, "the other's is held");
      await kept.release();
    }),
  },
  {
    name: "what happens to a hold is told, with its lease",
    run: onMachine(async (world, context) => {
      const store = await world.open();
      const hold = await store.slots.hold({ ...terms, background: false });
      await hold.renew();
      await hold.release({ lastUsedMs: hold.lease.floorMs });
      const next = await store.slots.hold({ ...terms, background: false });
      await expire(context, next.lease);
      const other = await context.open();
      const taken = await other.slots.acquire({ ...terms, ...anyAhead });
      await checkRejects(next.renew(), LeaseLostError);
      await other.slots.release(taken);
      checkEqual(
        world.events.flatMap((event) =>
          "fence" in event ? [[event.type, event.namespace, event.slot, event.fence]] : []
        ),
        [
          ["acquire", "workers", 0, 1],
          ["renew", "workers", 0, 1],
          ["released", "workers", 0, 1],
          ["acquire", "workers", 0, 2],
          ["lost", "workers", 0, 2],
        ],
      );
    }),
  },
];
