/**
 * The driver `mssql`, over `tedious`.
 *
 * @module
 */

// @ts-types="npm:@types/mssql@^12.3.0"
import mssql from "mssql";
import { openStore, sqlserverDialect } from "../../dialects/sqlserver/mod.ts";
import { configOf } from "../../dialects/sqlserver/url.ts";
import { Renderer } from "../../mod.ts";
import { bracketed } from "../../schema/sqlserver.ts";
import type { BenchDriver } from "./driver.ts";

const statements = new Renderer({
  quote: bracketed,
  make: (pieces) => pieces.reduce((text, piece, index) => `${text}@p${index}${piece}`),
});

/** mssql with its default pool of ten, and without its question before each statement. */
export const mssqlDriver: BenchDriver = {
  name: "mssql",
  async connect(url) {
    const pool = await new mssql.ConnectionPool(configOf(url, {})).connect();
    return {
      dialect: sqlserverDialect,
      openStore: (options) => openStore(pool, options),
      bare(statement) {
        const { text, values } = statements.render(statement);
        return async () => {
          const request = pool.request();
          values.forEach((value, index) =>
            typeof value === "string"
              ? request.input(`p${index + 1}`, mssql.NVarChar(4_000), value)
              : request.input(`p${index + 1}`, mssql.BigInt, value)
          );
          return nextValue(await request.query<NextValue>(text));
        };
      },
      transaction({ table, key, size }) {
        const name = bracketed(table.toString());
        const update = `update ${name} set next_value = next_value + @size where range_key = @key`;
        const select = `select next_value from ${name} where range_key = @key`;
        return async () => {
          const transaction = pool.transaction();
          await transaction.begin();
          const request = () => transaction.request().input("key", mssql.NVarChar(4_000), key);
          await request().input("size", mssql.BigInt, size).query(update);
          const result = await request().query<NextValue>(select);
          await transaction.commit();
          return nextValue(result);
        };
      },
      async empty(table) {
        await pool.query(`delete from ${bracketed(table.toString())}`);
      },
      async drop(table) {
        await pool.query(`drop table if exists ${bracketed(table.toString())}`);
      },
      [Symbol.asyncDispose]: () => pool.close(),
    };
  },
};

interface NextValue {
  readonly next_value: string;
}

function nextValue({ recordset: [row] }: mssql.IResult<NextValue>): bigint {
  return BigInt(row!.next_value);
}
