/**
 * The driver `postgres` (postgres.js).
 *
 * @module
 */

import postgres from "postgres";
import { openStore, postgresqlDialect } from "../../dialects/postgresql/mod.ts";
import { type Bindable, doubleQuoted, Renderer } from "../../mod.ts";
import type { BenchDriver } from "./driver.ts";

const statements = new Renderer({
  quote: doubleQuoted,
  // What the driver's tag takes from a template: it remembers a statement by its `strings`.
  make: (pieces): TemplateStringsArray => Object.assign([...pieces], { raw: pieces }),
});

/** postgres.js with its default pool of ten. */
export const postgresJs: BenchDriver = {
  name: "postgres",
  connect(url) {
    const sql = postgres(url, { onnotice() {} });
    return Promise.resolve({
      dialect: postgresqlDialect,
      openStore: (options) => openStore(sql, options),
      bare(statement) {
        const { text, values } = statements.render(statement);
        const [first = "", second = "", third = "", fourth = "", fifth = ""] = values.map(asText);
        if (values.length !== 5) {
          throw new TypeError(`Cannot measure a statement of ${values.length} values`);
        }
        // Spelled out, as in a template: an array spread into the tag makes the driver slower.
        return async () => {
          const [row] = await sql<NextValue[]>(text, first, second, third, fourth, fifth);
          return BigInt(row!.next_value);
        };
      },
      transaction({ table, key, size }) {
        const name = sql(table.toString());
        return async () =>
          await sql.begin(async (transaction) => {
            await transaction`
              update ${name} set next_value = next_value + ${size} where range_key = ${key}`;
            const [row] = await transaction<NextValue[]>`
              select next_value from ${name} where range_key = ${key}`;
            return BigInt(row!.next_value);
          });
      },
      async empty(table) {
        await sql`truncate ${sql(table.toString())}`;
      },
      async drop(table) {
        await sql`drop table if exists ${sql(table.toString())}`;
      },
      [Symbol.asyncDispose]: () => sql.end({ timeout: 5 }),
    });
  },
};

interface NextValue {
  readonly next_value: string;
}

function asText(value: Bindable): string {
  return String(value);
}
