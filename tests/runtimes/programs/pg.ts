import process from "node:process";
import { openStore } from "@fencepost/store/postgresql";
// @ts-types="npm:@types/pg@^8.15.0"
import pg from "pg";

const pool = new pg.Pool({ connectionString: process.argv[2] });
const store = await openStore(pool, { initSchema: true });
const { start, end } = await store.ranges.reserve("order", 1_000);
console.log(`${start} to ${end}`);
await store.close();
await pool.end();
