import process from "node:process";
import { openStore, type Range, type StoreOptions } from "@fencepost/store";

const options: StoreOptions = { initSchema: true };
const store = await openStore(process.argv[2] ?? "", options);
const { start, end }: Range = await store.ranges.reserve("order", 1_000);
console.log(`${start} to ${end}`);
await store.close();
