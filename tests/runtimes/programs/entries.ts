import process from "node:process";
import { FencepostError, openStore } from "@fencepost/store";
import "@fencepost/store/mysql";
import "@fencepost/store/postgresql";
import "@fencepost/store/sqlite";
import "@fencepost/store/sqlserver";
import "@fencepost/store/tck";

for (const url of process.argv.slice(2)) {
  try {
    const store = await openStore(url, { initSchema: true });
    await store.close();
    console.log(`${url} opened`);
  } catch (error) {
    console.log(`${url} ${error instanceof FencepostError ? error.code : error}`);
  }
}
