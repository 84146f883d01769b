import process from "node:process";
import { openStore } from "@fencepost/store/postgresql";
import postgres from "postgres";

const sql = postgres(process.argv[2] ?? "");
const store = await openStore(sql, { initSchema: true });
const { start, end } = await store.ranges.reserve("order", 1_000);
console.log(`${start} to ${end}`);
await store.close();
await sql.end();
