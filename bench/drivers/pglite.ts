/**
 * PGlite: PostgreSQL in the process, with one connection.
 *
 * @module
 */

import { PGlite } from "@electric-sql/pglite";
import { numbered } from "../../dialects/shared/protocol.ts";
import { openStore, postgresqlDialect } from "../../dialects/postgresql/mod.ts";
import { doubleQuoted, Renderer } from "../../mod.ts";
import type { BenchDriver } from "./driver.ts";

const statements = new Renderer({ quote: doubleQuoted, make: numbered });

/** The databases that are open; a folder can be open only once, so its connections share it. */
const open = new Map<string, Promise<PGlite>>();

/** PGlite on a folder. */
export const pglite: BenchDriver = {
  name: "@electric-sql/pglite",
  async connect(url) {
    const opening = open.get(url) ?? PGlite.create(url.slice("pglite:".length));
    open.set(url, opening);
    const database = await opening;
    return {
      dialect: postgresqlDialect,
      openStore: (options) => openStore(database, options),
      bare(statement) {
        const { text, values } = statements.render(statement);
        const parameters = values.map(String);
        return async () => {
          const { rows } = await database.query<NextValue>(text, parameters);
          return BigInt(rows[0]!.next_value);
        };
      },
      transaction({ table, key, size }) {
        const update = `update "${table}" set next_value = next_value + $2 where range_key = $1`;
        const select = `select next_value from "${table}" where range_key = $1`;
        return async () =>
          await database.transaction(async (transaction) => {
            await transaction.query(update, [key, size]);
            const { rows } = await transaction.query<NextValue>(select, [key]);
            return BigInt(rows[0]!.next_value);
          });
      },
      async empty(table) {
        await database.exec(`truncate "${table}"`);
      },
      async drop(table) {
        await database.exec(`drop table if exists "${table}"`);
      },
      async [Symbol.asyncDispose]() {
        if (open.delete(url)) await database.close();
      },
    };
  },
};

interface NextValue {
  readonly next_value: number | bigint;
}
