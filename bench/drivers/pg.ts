/**
 * The driver `pg`.
 *
 * @module
 */

// @ts-types="npm:@types/pg@^8.15.0"
import pg from "pg";
import { numbered } from "../../dialects/shared/protocol.ts";
import { openStore, postgresqlDialect } from "../../dialects/postgresql/mod.ts";
import { doubleQuoted, Renderer } from "../../mod.ts";
import type { BenchDriver } from "./driver.ts";

const statements = new Renderer({ quote: doubleQuoted, make: numbered });

/** pg with its default pool of ten. */
export const nodePostgres: BenchDriver = {
  name: "pg",
  connect(url) {
    const pool = new pg.Pool({ connectionString: url });
    return Promise.resolve({
      dialect: postgresqlDialect,
      openStore: (options) => openStore(pool, options),
      bare(statement) {
        const { text, values } = statements.render(statement);
        const query = { name: "reserve", text, values: values.map(String) };
        return async () => {
          const { rows } = await pool.query<NextValue>({ ...query });
          return BigInt(rows[0]!.next_value);
        };
      },
      transaction({ table, key, size }) {
        const update = `update "${table}" set next_value = next_value + $2 where range_key = $1`;
        const select = `select next_value from "${table}" where range_key = $1`;
        return async () => {
          const client = await pool.connect();
          try {
            await client.query("begin");
            await client.query({ name: "update", text: update, values: [key, size] });
            const { rows } = await client.query<NextValue>({
              name: "select",
              text: select,
              values: [key],
            });
            await client.query("commit");
            return BigInt(rows[0]!.next_value);
          } finally {
            client.release();
          }
        };
      },
      async empty(table) {
        await pool.query(`truncate "${table}"`);
      },
      async drop(table) {
        await pool.query(`drop table if exists "${table}"`);
      },
      [Symbol.asyncDispose]: () => pool.end(),
    });
  },
};

interface NextValue {
  readonly next_value: string;
}
