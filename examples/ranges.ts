/**
 * Reserves id ranges from an embedded database, from four callers at once, and makes snowflake ids of a
 * slot that it leases there.
 *
 * Run it with `npx -y deno run -A examples/ranges.ts [URL]`.
 *
 * @module
 */

import { openStore } from "@fencepost/store";

const store = await openStore(Deno.args[0] ?? "sqlite::memory:", { initSchema: true });
try {
  const { product, version } = store.server;
  console.log(`${product} ${version}`);
  const callers = ["a", "b", "c", "d"];
  await Promise.all(callers.map(async (caller) => {
    const { start, end } = await store.ranges.reserve("order", 1_000);
    console.log(`caller ${caller} may use ${start} to ${end - 1n}`);
  }));
  console.log("next:", (await store.ranges.read("order"))?.nextValue);

  const events = await store.snowflakeIds({ namespace: "events" });
  for (const id of await events.nextMany(3)) console.log("event", id, events.parse(id));
  await events.close();
} finally {
  await store.close();
}
