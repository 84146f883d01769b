/**
 * A process that draws ranges: `sqlite_worker.ts <url> <table> <key> <count>`. It prints them as
 * lines of `start end`.
 *
 * @module
 */

import { openStore } from "../../dialects/sqlite/mod.ts";

const [url = "", rangeTable = "", key = "", count = "0"] = Deno.args;
const store = await openStore(url, { rangeTable, initSchema: true, timeoutMs: 60_000 });
const lines: string[] = [];
for (let drawn = 0; drawn < Number(count); drawn++) {
  const { start, end } = await store.ranges.reserve(key, 1 + drawn % 3);
  lines.push(`${start} ${end}`);
}
await store.close();
console.log(lines.join("\n"));
