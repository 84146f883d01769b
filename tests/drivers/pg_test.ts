// @ts-types="npm:@types/pg@^8.23.1"
import pg from "pg";
import type { PostgresqlDriver } from "./postgresql_fixture.ts";
import { testDriver } from "./postgresql_rules.ts";

const driver: PostgresqlDriver = {
  name: "pg",
  turns: { first: 1, warm: 1, unprepared: 1 },
  commit: "commit\0",
  open(url, { max = 10, session = {} } = {}) {
    const { application_name, ...settings } = session;
    const options = Object.entries(settings)
      .map(([name, value]) => `-c ${name}=${value.replaceAll(" ", "\\ ")}`).join(" ");
    const pool = new pg.Pool({
      connectionString: url,
      max,
      ...(application_name === undefined ? {} : { application_name }),
      ...(options === "" ? {} : { options }),
    });
    // As the driver asks of every application.
    pool.on("error", () => {});
    return {
      target: pool,
      run: async (text) => (await pool.query(text)).rows,
      [Symbol.asyncDispose]: () => pool.end(),
    };
  },
};

testDriver(driver);
