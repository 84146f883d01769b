/**
 * A process that takes a slot, draws snowflake ids and says every one, until it ends in the way that it
 * is told to.
 *
 * @module
 */

import process from "node:process";
import { setTimeout } from "node:timers/promises";
import {
  LeaseLostError,
  openStore,
  SlotsExhaustedError,
  type SnowflakeIds,
  type Store,
} from "../../mod.ts";
import { batchSize, layout, readSettings, say, type Settings } from "./said.ts";

if (import.meta.main) await main(readSettings());

async function main(settings: Settings): Promise<void> {
  await using store = await openStore(settings.url, settings.tables);
  await using ids = await acquire(store, settings);
  const { slot, fence } = ids.hold.lease;
  say({ type: "acquired", slot, fence });
  try {
    await draw(ids, settings);
  } catch (error) {
    if (!(error instanceof LeaseLostError)) throw error;
    say({ type: "lost", held: ids.hold.held, aborted: ids.hold.signal.aborted });
  }
}

async function acquire(store: Store, { hold }: Settings): Promise<SnowflakeIds> {
  for (;;) {
    try {
      return await store.snowflakeIds({ ...hold, layout });
    } catch (error) {
      if (!(error instanceof SlotsExhaustedError)) throw error;
      await setTimeout(20);
    }
  }
}

async function draw(ids: SnowflakeIds, { batches, end }: Settings): Promise<void> {
  for (let drawn = 0;; drawn++) {
    if (drawn === batches) {
      if (end === "release") return;
      if (end === "exit") process.exit(0);
      // Not while a statement runs: it might be one that holds a lock of SQLite's file.
      if (end === "stop") process.kill(process.pid, "SIGSTOP");
    }
    const batch = await ids.nextMany(batchSize);
    say({ type: "ids", ids: batch.map(String) });
    await setTimeout(2);
  }
}
