import postgres from "postgres";
import type { PostgresqlDriver } from "./postgresql_fixture.ts";
import { testDriver } from "./postgresql_rules.ts";

const driver: PostgresqlDriver = {
  name: "postgres",
  turns: { first: 2, warm: 1, unprepared: 2 },
  commit: "commit\n",
  open(url, { max = 10, session = {} } = {}) {
    const sql = postgres(url, {
      max,
      connection: session,
      backoff: false,
      // A connection that breaks while the driver asks for types rejects a promise of the driver's own
      // that nobody can handle.
      fetch_types: false,
      onnotice: () => {},
    });
    return {
      target: sql,
      run: async (text) => await sql.unsafe(text),
      [Symbol.asyncDispose]: () => sql.end({ timeout: 0 }),
    };
  },
};

testDriver(driver);
