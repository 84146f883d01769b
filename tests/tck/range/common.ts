/**
 * What the cases of ranges share.
 *
 * @module
 */

import { FencepostError } from "../../../core/errors.ts";
import { Deadline, systemRuntime } from "../../../core/runtime.ts";
import type { QueryResult } from "../../../core/sql/row.ts";
import { Identifier, sql, type Statement } from "../../../core/sql/statement.ts";
import { check, checkRejects } from "../check.ts";
import { type Interference, WatchedClient } from "../clients.ts";
import type { TckContext } from "../context.ts";

/** The largest value that a range can end at. */
export const max = 9223372036854775807n;

/** A deadline for statements of a case's own. */
export function patience(): Deadline {
  return new Deadline(systemRuntime, { timeoutMs: 30_000 });
}

/** The context's table of ranges. */
export function tableOf(context: TckContext): Identifier {
  return Identifier.parse(context.tables.rangeTable, "rangeTable");
}

/** Runs a statement of the case's own, on another connection than the store's. */
export async function execute(context: TckContext, statement: Statement): Promise<QueryResult> {
  const client = await context.client();
  return await client.query(statement, { name: "tck", deadline: patience() });
}

/** Writes a key's next value, as a restored backup or a failover would. */
export async function rewind(context: TckContext, key: string, nextValue: bigint): Promise<void> {
  const table = tableOf(context);
  await execute(
    context,
    sql`update ${table} set next_value = ${nextValue} where range_key = ${key}`,
  );
}

/** A client whose statements can be watched and interfered with, and the store's table in place. */
export async function watched(
  context: TckContext,
  interfere?: Interference,
): Promise<WatchedClient> {
  await context.open();
  const client = new WatchedClient(await context.client());
  if (interfere) client.interfere = interfere;
  return client;
}

/** Lets every promise that is ready to settle do so. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) await Promise.resolve();
}

/**
 * Fails unless the promise rejects because somebody's transaction was open until its deadline: a
 * database with one connection, which is inside that transaction, says so.
 */
export async function checkHeldUp(promise: Promise<unknown>): Promise<void> {
  const { code } = await checkRejects(promise, FencepostError);
  check(code === "TIMEOUT" || code === "IN_TRANSACTION", `it is held up, the code is ${code}`);
}
