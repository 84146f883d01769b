/**
 * The driver `mysql2`, on MySQL and MariaDB.
 *
 * @module
 */

import { createPool, type ResultSetHeader, type RowDataPacket } from "mysql2/promise";
import { boundInteger } from "../../dialects/mysql/dialect.ts";
import { mariadbDialect, mysqlDialect, openStore } from "../../dialects/mysql/mod.ts";
import { Renderer } from "../../mod.ts";
import { backQuoted } from "../../schema/mysql.ts";
import type { BenchDriver } from "./driver.ts";

const statements = new Renderer({
  quote: backQuoted,
  make: (pieces, types) =>
    pieces.reduce((text, piece, index) =>
      `${text}${types[index - 1] === "bigint" ? boundInteger : "?"}${piece}`
    ),
});

/** mysql2 with its default pool of ten. */
export const mysql2: BenchDriver = {
  name: "mysql2",
  async connect(url) {
    const pool = createPool({ uri: url });
    return {
      dialect: await isMariadb() ? mariadbDialect : mysqlDialect,
      openStore: (options) => openStore(pool, options),
      bare(statement) {
        const { text, values } = statements.render(statement, String);
        return async () => {
          const [{ insertId }] = await pool.execute<ResultSetHeader>(text, values);
          return BigInt(insertId);
        };
      },
      transaction({ table, key, size }) {
        const name = backQuoted(table.toString());
        const update = `update ${name} set next_value = next_value + ? where range_key = ?`;
        const select = `select next_value from ${name} where range_key = ?`;
        return async () => {
          const connection = await pool.getConnection();
          try {
            await connection.beginTransaction();
            await connection.execute(update, [size, key]);
            const [rows] = await connection.execute<NextValue[]>(select, [key]);
            await connection.commit();
            return BigInt(rows[0]!.next_value);
          } finally {
            connection.release();
          }
        };
      },
      async empty(table) {
        await pool.query(`truncate table ${backQuoted(table.toString())}`);
      },
      async drop(table) {
        await pool.query(`drop table if exists ${backQuoted(table.toString())}`);
      },
      [Symbol.asyncDispose]: () => pool.end(),
    };

    async function isMariadb(): Promise<boolean> {
      const [[row]] = await pool.query<(RowDataPacket & { version: string })[]>(
        "select version() as version",
      );
      return /mariadb/i.test(row?.version ?? "");
    }
  },
};

interface NextValue extends RowDataPacket {
  readonly next_value: number;
}
