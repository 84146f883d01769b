/**
 * The suite `snowflake`: how many ids one hold gives, in each format.
 *
 * | candidate | what a caller does                                                          |
 * | --------- | --------------------------------------------------------------------------- |
 * | `bigint`  | draws as many ids as a millisecond has, 4,096, of the usual layout           |
 * | `string`  | the same, as texts                                                          |
 * | `number`  | the same as numbers, of a layout of 53 bits with as many ids a millisecond   |
 *
 * The layout allows 1,000 such draws a second, and a lead over the clock of 20 ms changes that little:
 * so 1,000 operations a second mean that the clock is what limits it.
 *
 * @module
 */

import { type IdFormat, type SnowflakeIds, type SnowflakeLayout, snowflakeLayout } from "../mod.ts";
import type { BenchDriver } from "./drivers/mod.ts";
import type { Candidate } from "./harness.ts";
import type { Suite } from "./suite.ts";
import { dropTables, tableOptions } from "./tables.ts";

/** How many ids a millisecond has. */
const count = 4_096;

const maxAheadMs = 20;

const layouts: Readonly<Record<IdFormat, SnowflakeLayout>> = {
  bigint: snowflakeLayout,
  string: snowflakeLayout,
  number: { ...snowflakeLayout, timeBits: 40, slotBits: 1 },
};

/** Opens the suite over a driver; its tables are dropped in the end. */
export async function openSnowflakeSuite(driver: BenchDriver, url: string): Promise<Suite> {
  const connection = await driver.connect(url);
  const generators: SnowflakeIds<IdFormat>[] = [];
  const dispose = async () => {
    try {
      for (const ids of generators) await ids.close();
      await dropTables(connection);
    } finally {
      await connection[Symbol.asyncDispose]();
    }
  };
  try {
    const store = await connection.openStore({ ...tableOptions, initSchema: true });
    const candidates: Candidate[] = [];
    for (const format of ["number", "bigint", "string"] as const) {
      const layout = layouts[format];
      const ids = await store.snowflakeIds<IdFormat>({
        namespace: format,
        layout,
        format,
        maxAheadMs,
      });
      generators.push(ids);
      candidates.push(drawing(format, ids));
    }
    return {
      operation: `draw ${count.toLocaleString("en")} snowflake ids`,
      candidates,
      comparisons: [
        { candidate: "bigint", reference: "number" },
        { candidate: "string", reference: "number" },
      ],
      beforeRun: () => Promise.resolve(),
      [Symbol.asyncDispose]: dispose,
    };
  } catch (error) {
    await dispose();
    throw error;
  }
}

function drawing(name: string, ids: SnowflakeIds<IdFormat>): Candidate {
  return {
    name,
    prepare: () =>
      Promise.resolve(async () => {
        let last: bigint | number | string = 0;
        for (let drawn = 0; drawn < count; drawn++) last = ids.tryNext() ?? await ids.next();
        return BigInt(last);
      }),
  };
}
