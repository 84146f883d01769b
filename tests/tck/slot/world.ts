/**
 * A machine whose clocks a case moves, and stores on it whose way to the database the case controls.
 *
 * @module
 */

import type { StoreEvent } from "../../../core/events.ts";
import { type Runtime, systemRuntime, type Timer } from "../../../core/runtime.ts";
import type { SlotLease } from "../../../core/slot/slot_lease.ts";
import type { SlotState } from "../../../core/slot/slot_store.ts";
import type { Client } from "../../../core/sql/client.ts";
import type { Dialect } from "../../../core/sql/dialect.ts";
import { Identifier, sql } from "../../../core/sql/statement.ts";
import type { Store, StoreOptions } from "../../../core/store.ts";
import { check } from "../check.ts";
import {
  type Interference,
  type Sent,
  StagedError,
  WatchedClient,
  withStagedErrors,
} from "../clients.ts";
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
    this.#dialect = withStagedErrors(dialect);
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
    this.answer(() => Promise.reject(new StagedError()));
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
