/**
 * The platform's `node:sqlite`, which is synchronous.
 *
 * @module
 */

import { DatabaseSync } from "node:sqlite";
import { openStore, sqliteDialect } from "../../dialects/sqlite/mod.ts";
import { doubleQuoted, Renderer } from "../../mod.ts";
import type { BenchDriver } from "./driver.ts";

const statements = new Renderer({ quote: doubleQuoted, make: (pieces) => pieces.join("?") });

/** SQLite on a file, as a store that is opened from a URL uses it. */
export const nodeSqlite: BenchDriver = {
  name: "node:sqlite",
  connect(url) {
    const database = new DatabaseSync(url.slice("sqlite:".length));
    database.exec("pragma journal_mode = wal; pragma synchronous = full");
    const prepare = (text: string) => {
      const statement = database.prepare(text);
      statement.setReadBigInts(true);
      return statement;
    };
    return Promise.resolve({
      dialect: sqliteDialect,
      openStore: (options) => openStore(database, options),
      bare(statement) {
        const { text, values } = statements.render(statement);
        const prepared = prepare(text);
        const bound = values.map((value) => typeof value === "bigint" ? value : String(value));
        return () => Promise.resolve(nextValue(prepared.get(...bound)));
      },
      transaction({ table, key, size }) {
        const update = prepare(
          `update "${table}" set next_value = next_value + ? where range_key = ?`,
        );
        const select = prepare(`select next_value from "${table}" where range_key = ?`);
        return () => {
          database.exec("begin immediate");
          update.run(size, key);
          const next = nextValue(select.get(key));
          database.exec("commit");
          return Promise.resolve(next);
        };
      },
      empty(table) {
        database.exec(`delete from "${table}"`);
        return Promise.resolve();
      },
      drop(table) {
        database.exec(`drop table if exists "${table}"`);
        return Promise.resolve();
      },
      [Symbol.asyncDispose]: () => Promise.resolve(database.close()),
    });
  },
};

function nextValue(row: Record<string, unknown> | undefined): bigint {
  const value = row?.next_value;
  if (typeof value !== "bigint") throw new TypeError("The statement returned no next_value");
  return value;
}
