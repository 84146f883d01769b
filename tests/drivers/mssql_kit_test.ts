/**
 * The whole compatibility kit over the real `mssql` and `tedious`, against the stand-in for SQL Server
 * in tests/tds. It shows that the adapter keeps the contracts over the driver; what only SQL Server
 * itself can show, it shows where `SQLSERVER_URL` names one.
 *
 * @module
 */

import { runOn } from "../databases/context.ts";
import { sqlserver } from "../databases/sqlserver.ts";
import { tckCases } from "../tck/mod.ts";
import { startTdsDatabase } from "../tds/database.ts";

for (const { name, run } of tckCases) {
  Deno.test(`mssql on the stand-in › ${name}`, async () => {
    await using server = await startTdsDatabase();
    for (const driver of sqlserver(server.url)) await runOn(driver, run);
  });
}
