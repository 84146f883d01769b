import process from "node:process";
import { openStore } from "@fencepost/store/mysql";
import { createPool } from "mysql2/promise";

const uri = process.argv[2]?.replace(/^mariadb:/, "mysql:");
const pool = createPool({ uri });
const store = await openStore(pool, { initSchema: true });
const { start, end } = await store.ranges.reserve("order", 1_000);
console.log(`${start} to ${end}`);
await store.close();
await pool.end();
