/**
 * What the cases of slots share.
 *
 * @module
 */

import { type Runtime, systemRuntime } from "../../../core/runtime.ts";
import type { SlotLease, SlotLeaseData } from "../../../core/slot/slot_lease.ts";
import type { AcquireOptions } from "../../../core/slot/slot_arguments.ts";
import type { SlotStore } from "../../../core/slot/slot_store.ts";
import type { Client } from "../../../core/sql/client.ts";
import type { Dialect } from "../../../core/sql/dialect.ts";
import type { QueryResult, Row } from "../../../core/sql/row.ts";
import { Identifier, sql, type Statement } from "../../../core/sql/statement.ts";
import type { Store, StoreOptions } from "../../../core/store.ts";
import { check, checkEqual } from "../check.ts";
import { StagedError, WatchedClient, withStagedErrors } from "../clients.ts";
import type { TckContext } from "../context.ts";
import { patience } from "../range/common.ts";

/** The namespace of most cases. */
export const namespace = "workers";
/** How long a lease of most cases lasts, and how far its window reaches beyond. */
export const ttlMs = 30_000;
/** As above. */
export const toleranceMs = 2_000;
/** The furthest that a window may lie ahead: for cases that are about something else. */
export const anyAhead = 172_800_000;

/** The terms of an acquire. */
export function terms(options: Partial<AcquireOptions> = {}): AcquireOptions {
  return { namespace, limit: 4, ttlMs, toleranceMs, ...options };
}

/** The clock of the database and those of the process, which stand still until they are moved. */
export class Clock {
  /** The database's clock. */
  storeMs = 1_800_000_000_000;
  /** Both clocks of the process. */
  hostMs = 1_700_000_000_000;

  /** Moves all of them. */
  advance(ms: number): void {
    this.storeMs += ms;
    this.hostMs += ms;
  }

  /** The process's clocks, with the timers of the platform. */
  get runtime(): Runtime {
    const now = () => this.hostMs;
    return { ...systemRuntime, wallMs: now, monotonicMs: now };
  }
}

/** A dialect whose store clock a case moves. */
export function withClock(dialect: Dialect, clock: Clock): Dialect {
  return Object.create(dialect, {
    // The database's own still gives the type.
    nowMillis: { get: () => sql`(${dialect.nowMillis} * 0 + ${clock.storeMs})` },
  });
}

/** A row of slots as it is. */
export interface SlotRow {
  readonly slot: number;
  readonly ownerKey: string | undefined;
  readonly lastOwnerKey: string | undefined;
  readonly incarnation: string | undefined;
  readonly fence: number;
  readonly expiresAtMs: number;
  readonly floorMs: number;
  readonly ceilingMs: number;
  readonly nextFloorMs: number;
}

/** A store whose statements a case watches, whose clocks it moves, and whose rows it reads. */
export class Rig {
  /** The clocks of everything that this rig opens. */
  readonly clock: Clock;
  /** The client of the store. */
  readonly client: WatchedClient;
  /** The store. */
  readonly store: Store;
  readonly #context: TckContext;
  readonly #direct: Client;
  readonly #options: StoreOptions;

  private constructor(
    context: TckContext,
    parts: {
      clock: Clock;
      client: WatchedClient;
      store: Store;
      direct: Client;
      options: StoreOptions;
    },
  ) {
    this.#context = context;
    this.clock = parts.clock;
    this.client = parts.client;
    this.store = parts.store;
    this.#direct = parts.direct;
    this.#options = parts.options;
  }

  /** Opens a store. Its clocks are the case's unless the options have a runtime or a dialect. */
  static async open(context: TckContext, options: StoreOptions = {}): Promise<Rig> {
    const clock = new Clock();
    const direct = await context.client();
    const client = new WatchedClient(direct);
    const all = {
      dialect: withStagedErrors(withClock(context.dialect, clock)),
      runtime: clock.runtime,
      ...options,
    };
    const store = await context.open({ client, ...all });
    client.sent.length = 0;
    return new Rig(context, { clock, client, store, direct, options: all });
  }

  /** The slots of the store. */
  get slots(): SlotStore {
    return this.store.slots;
  }

  /** The slots of another store, as another process has them. */
  async another(options: StoreOptions = {}): Promise<SlotStore> {
    return (await this.#context.open({ ...this.#options, ...options })).slots;
  }

  /** Runs a statement of the case's own, that no interference meets. */
  execute(statement: Statement): Promise<QueryResult> {
    return this.#direct.query(statement, { name: "tck", deadline: patience() });
  }

  /** The rows of a namespace, in the order of their slots. */
  async rows(of = namespace): Promise<SlotRow[]> {
    const { rows } = await this.execute(sql`
      select
        slot, owner_key, last_owner_key, incarnation, fence,
        expires_at, floor_ms, ceiling_ms, next_floor_ms
      from ${slotTable(this.#context)}
      where namespace = ${of}
      order by slot
    `);
    return rows.map(slotRow);
  }

  /** The rows of a namespace that have an owner. */
  async owned(of = namespace): Promise<SlotRow[]> {
    return (await this.rows(of)).filter(({ ownerKey }) => ownerKey !== undefined);
  }

  /** The row of a slot. */
  async row({ namespace: of, slot }: { namespace: string; slot: number }): Promise<SlotRow> {
    const row = (await this.rows(of)).find((one) => one.slot === slot);
    check(row !== undefined, `slot ${slot} of ${of} has a row`);
    return row;
  }

  /** Writes the first millisecond of a slot's next window. */
  async setNextFloor(slot: number, nextFloorMs: number, of = namespace): Promise<void> {
    await this.execute(sql`
      update ${slotTable(this.#context)} set next_floor_ms = ${nextFloorMs}
      where namespace = ${of} and slot = ${slot}
    `);
  }

  /** Fails unless the row is the lease's, and what its holder believes lies within it. */
  async checkBelieved(lease: SlotLease): Promise<SlotRow> {
    const row = await this.row(lease);
    checkEqual(
      [row.ownerKey, row.incarnation, row.fence, row.floorMs],
      [lease.ownerKey, lease.incarnation, lease.fence, lease.floorMs],
      "owner, incarnation, fence and floor",
    );
    check(
      lease.ceilingMs <= row.ceilingMs,
      `the believed ceiling ${lease.ceilingMs} lies above that of the row, ${row.ceilingMs}`,
    );
    check(row.nextFloorMs > row.ceilingMs, "the next window begins behind the ceiling");
    return row;
  }

  /** Loses the replies of the next statement of a name, after it was carried out or before. */
  lose(name: string, { carriedOut }: { carriedOut: boolean }): void {
    this.client.interfere = async (sent) => {
      if (sent.name !== name) return await sent.send();
      this.client.interfere = ({ send }) => send();
      if (carriedOut) await sent.send();
      throw new StagedError("connection");
    };
  }
}

/** The context's table of slots. */
export function slotTable(context: TckContext): Identifier {
  return Identifier.parse(context.tables.slotTable, "slotTable");
}

/** The context's table of namespaces. */
export function namespaceTable(context: TckContext): Identifier {
  return Identifier.parse(context.tables.namespaceTable, "namespaceTable");
}

/** A lease that is none of anybody's: the data of one with something else in it. */
export function forged(lease: SlotLease, other: Partial<SlotLeaseData>): SlotLeaseData {
  return { ...lease.toJSON(), ...other };
}

function slotRow(row: Row): SlotRow {
  const text = (name: string) => row.isNull(name) ? undefined : row.text(name);
  return {
    slot: row.number("slot"),
    ownerKey: text("owner_key"),
    lastOwnerKey: text("last_owner_key"),
    incarnation: text("incarnation"),
    fence: row.number("fence"),
    expiresAtMs: row.number("expires_at"),
    floorMs: row.number("floor_ms"),
    ceilingMs: row.number("ceiling_ms"),
    nextFloorMs: row.number("next_floor_ms"),
  };
}
