/**
 * Slots and snowflake ids between real processes, which are killed, stopped and started again, on every
 * database that several can share.
 *
 * @module
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { setTimeout } from "node:timers/promises";
import { onDatabase } from "../bench/client.ts";
import {
  Identifier,
  openStore,
  type SlotHold,
  SlotsExhaustedError,
  type SnowflakeIdsOptions,
  sql,
  type Store,
  type TableOptions,
} from "../mod.ts";
import { batchSize, type End, layout, type Settings } from "./processes/said.ts";
import { Started } from "./processes/started.ts";
import { askedServers } from "./servers/asked.ts";
import { until } from "./servers/until.ts";

const families = ["sqlite", "postgresql", "mysql", "mariadb", "h2"];

/** Times that processes can be waited for. */
const terms = { namespace: "a", limit: 1, ttlMs: 1_000, toleranceMs: 500 };

/** A lease that does not expire while a test runs. */
const longTerms = { ...terms, ttlMs: 86_400_000 };

/** So many ids take more time than a process needs to start. */
const farAhead = 15 * batchSize;

/** So many fill the window of a lease, of which a part lies beyond its expiry. */
const wholeWindow = 2 * (terms.ttlMs + terms.toleranceMs);

interface Fixture {
  readonly store: Store;
  /** Starts a process, which is killed at the latest when the test has ended. */
  start(options: StartOptions): Started;
}

interface StartOptions {
  readonly program?: string;
  readonly hold?: SnowflakeIdsOptions;
  readonly batches?: number;
  readonly end: End;
}

function test(name: string, url: string, body: (fixture: Fixture) => Promise<void>): void {
  Deno.test(name, async () => {
    const rangeTable = `processes_${crypto.randomUUID().slice(0, 8)}`;
    const tables = {
      rangeTable,
      slotTable: `${rangeTable}_slot`,
      namespaceTable: `${rangeTable}_namespace`,
    };
    const processes: Started[] = [];
    const start = ({ program = "drawing.ts", hold = terms, batches = 1, end }: StartOptions) => {
      const settings: Settings = { url, tables, hold, batches, end };
      const started = new Started(program, settings);
      processes.push(started);
      return started;
    };
    try {
      await using store = await openStore(url, { ...tables, initSchema: true });
      await body({ store, start });
    } finally {
      await Promise.all(processes.map((started) => started.kill()));
      await drop(url, tables);
    }
  });
}

async function drop(url: string, tables: Required<TableOptions>): Promise<void> {
  await onDatabase(url, async (database) => {
    const deadline = database.deadline({});
    for (const [option, name] of Object.entries(tables)) {
      const table = Identifier.parse(name, option);
      await database.query(sql`drop table if exists ${table}`, { name: "drop", deadline });
    }
  });
}

/** The only slot of a namespace. */
async function slotOf(store: Store) {
  const state = await store.slots.inspect(terms.namespace);
  const [slot] = state?.slots ?? [];
  if (slot === undefined) throw new Error("Cannot find the slot: received no row");
  return slot;
}

async function drawFrom(store: Store, hold: SlotHold): Promise<bigint[]> {
  return await (await store.snowflakeIds({ hold, layout })).nextMany(3 * batchSize);
}

/** Takes the only slot as soon as it is free, and draws ids; tells from when on by the store clock. */
async function takeOver(store: Store): Promise<{ ids: bigint[]; fence: number; sinceMs: number }> {
  const hold = await until(
    () =>
      store.slots.hold({ ...terms, background: false }).catch((error) => {
        if (!(error instanceof SlotsExhaustedError)) throw error;
      }).then((hold) => hold ?? undefined),
    { what: "the slot to come free" },
  );
  const ids = await drawFrom(store, hold);
  const { expiresAtMs, fence } = await slotOf(store);
  return { ids, fence, sinceMs: expiresAtMs - terms.ttlMs };
}

/** Asserts that the ids of holders, in the order in which they held a slot, rise and do not overlap. */
function assertRising(...holders: readonly (readonly bigint[])[]): void {
  const ids = holders.flat();
  for (const [index, id] of ids.entries()) {
    if (index > 0) assert(id > (ids[index - 1] ?? id), `${id} came after ${ids[index - 1]}`);
  }
  for (const holder of holders) assert(holder.length > 0);
}

/** Of each family one: what ends a process is the same on every version, and most of this is waiting. */
const databases = families.flatMap((family) =>
  askedServers().find(({ name }) => name.replace(/-[\d.]+$/, "") === family) ?? []
);

for (const { name, url } of databases) {
  test(
    `${name} › a process that is killed keeps its slot until its lease expires, then another takes it and its ids are above`,
    url,
    async ({ store, start }) => {
      const first = start({ hold: { ...terms, maxAheadMs: 10_000 }, end: "never" });
      await first.drawing(wholeWindow);
      assertEquals((await first.kill()).signal, "SIGKILL");
      const left = await slotOf(store);
      assertEquals(left.fence, 1);
      assert(left.ownerKey !== undefined);
      const second = await takeOver(store);
      assertEquals(second.fence, 2);
      assert(second.sinceMs >= left.expiresAtMs, `${second.sinceMs} < ${left.expiresAtMs}`);
      assertRising(first.ids, second.ids);
    },
  );

  test(
    `${name} › a process whose work is done ends by itself though it has a live hold, and the slot stays held`,
    url,
    async ({ store, start }) => {
      const process = start({ program: "leaving.ts", hold: longTerms, end: "never" });
      await process.succeeded();
      assertEquals(process.said.map(({ type }) => type), ["acquired", "ids", "exit"]);
      assertEquals((await slotOf(store)).state, "held");
    },
  );

  test(
    `${name} › a process that ends by await using frees its slot at once`,
    url,
    async ({ store, start }) => {
      const first = start({ hold: longTerms, batches: 3, end: "release" });
      await first.succeeded();
      const hold = await store.slots.hold(longTerms);
      assertEquals(hold.lease.fence, 2);
      assertRising(first.ids, await drawFrom(store, hold));
      await hold.release();
    },
  );

  test(
    `${name} › a process that is stopped past its ttl gives no id when it goes on, but reports its lease lost, and the next has ids of its own`,
    url,
    async ({ store, start }) => {
      const first = start({ batches: 3, end: "stop" });
      await first.saying("acquired");
      const second = await takeOver(store);
      const before = first.ids;
      first.signal("SIGCONT");
      const { held, aborted } = await first.saying("lost");
      assertEquals([held, aborted], [false, true]);
      await first.succeeded();
      assertEquals(first.ids, before, "it gave ids after its time was over");
      assertRising(first.ids, second.ids);
      const { fence, ownerKey } = await slotOf(store);
      assertEquals([fence, ownerKey === undefined], [2, false], "the slot is still the second's");
    },
  );

  test(
    `${name} › a process with the owner key of one that was killed takes its slot back before the lease expires`,
    url,
    async ({ store, start }) => {
      const hold = { ...terms, ttlMs: 60_000, ownerKey: "node 1" };
      const first = start({ hold, end: "never" });
      await first.drawing(farAhead);
      await first.kill();
      const other = () => store.slots.acquire({ ...hold, ownerKey: "node 2" });
      await assertRejects(other, SlotsExhaustedError);
      const second = start({ hold, batches: 3, end: "release" });
      await second.succeeded();
      assertEquals(second.first("acquired"), { type: "acquired", slot: 0, fence: 2 });
      assertRising(first.ids, second.ids);
    },
  );
}

/** How a life of a process ends. */
type Fate = "killed" | "exit" | "release";

const fates: readonly Fate[] = ["killed", "exit", "release"];

for (const { name, url } of databases) {
  test(
    `${name} › processes that are killed, exit, end and start again get no id twice, and no two a lease`,
    url,
    async ({ start }) => {
      const lives: Started[] = [];
      /** Starts one process after another; two of four lanes keep their owner key through all lives. */
      const run = async (lane: number) => {
        const ownerKey = lane < 2 ? `lane ${lane}` : undefined;
        for (const turn of fates.keys()) {
          const fate = fates[(lane + turn) % fates.length] ?? "killed";
          const batches = 1 + Math.floor(Math.random() * 10);
          const hold = { ...terms, limit: 3, ownerKey };
          const life = start({ hold, batches, end: fate === "killed" ? "never" : fate });
          lives.push(life);
          if (fate !== "killed") await life.succeeded();
          else {
            // Anywhere in its life: while it starts, acquires, draws, renews.
            await Promise.race([setTimeout(100 + Math.random() * 400), life.ended]);
            await life.kill();
          }
        }
      };
      await Promise.all([0, 1, 2, 3].map(run));

      const ids = lives.flatMap((life) => life.ids);
      assert(ids.length >= 8 * batchSize, "each life that ends by itself draws");
      assertEquals(new Set(ids).size, ids.length, "an id came twice");
      const holders = lives.filter((life) => life.first("acquired") !== undefined);
      const leases = holders.map((life) => life.first("acquired"));
      const names = leases.map((lease) => `${lease?.slot} ${lease?.fence}`);
      assertEquals(new Set(names).size, names.length, "a lease had two holders");
      for (const { ids } of holders.filter(({ ids }) => ids.length > 0)) assertRising(ids);
      for (let slot = 0; slot < 3; slot++) {
        const ofSlot = holders.filter((life) => life.first("acquired")?.slot === slot)
          .filter(({ ids }) => ids.length > 0)
          .sort((one, other) =>
            (one.first("acquired")?.fence ?? 0) - (other.first("acquired")?.fence ?? 0)
          );
        assertRising(...ofSlot.map(({ ids }) => ids));
      }
    },
  );
}
