/**
 * The driver `postgres` (postgres.js) on H2, by H2's server of the PostgreSQL protocol.
 *
 * @module
 */

import postgres from "postgres";
import { h2Dialect, openStore } from "../../dialects/h2/mod.ts";
import { doubleQuoted, Renderer } from "../../mod.ts";
import type { BenchDriver } from "./driver.ts";

const statements = new Renderer({ quote: doubleQuoted, make: withCasts });

/** postgres.js with its default pool of ten; H2 has none of the types that it would ask for. */
export const h2PostgresJs: BenchDriver = {
  name: "postgres",
  connect(url) {
    const address = url.replace(/^h2:/i, "postgres:");
    const sql = postgres(address, { fetch_types: false, onnotice() {} });
    return Promise.resolve({
      dialect: h2Dialect,
      openStore: (options) => openStore(sql, options),
      bare(statement) {
        const { text, values } = statements.render(statement, String);
        const [first = "", second = "", third = "", fourth = "", fifth = ""] = values;
        if (values.length !== 5) {
          throw new TypeError(`Cannot measure a statement of ${values.length} values`);
        }
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
              update ${name} set next_value = next_value + cast(${size} as bigint)
              where range_key = ${key}`;
            const [row] = await transaction<NextValue[]>`
              select next_value from ${name} where range_key = ${key}`;
            return BigInt(row!.next_value);
          });
      },
      async empty(table) {
        await sql`truncate table ${sql(table.toString())}`;
      },
      async drop(table) {
        await sql`drop table if exists ${sql(table.toString())}`;
      },
      [Symbol.asyncDispose]: () => sql.end({ timeout: 5 }),
    });
  },
};

/** A text as the driver's tag takes it, with the type of each value: H2 infers none. */
function withCasts(pieces: readonly string[], types: readonly string[]): TemplateStringsArray {
  const strings = pieces.map((piece, index) => {
    const before = types[index - 1];
    const after = index < types.length ? "cast(" : "";
    const cast = before === undefined ? "" : ` as ${before === "bigint" ? "bigint" : "varchar"})`;
    return `${cast}${piece}${after}`;
  });
  return Object.assign(strings, { raw: strings });
}

interface NextValue {
  readonly next_value: string;
}
