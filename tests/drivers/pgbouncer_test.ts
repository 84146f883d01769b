import { assert, assertInstanceOf, assertNotEquals } from "@std/assert";
import pg from "pg";
import postgres from "postgres";
import { openStore, type PostgresqlTarget } from "../../dialects/postgresql/mod.ts";
import { FencepostError, type Range } from "../../mod.ts";
import { askedServers } from "../servers/asked.ts";
import { assertDisjoint, settles, sorted, tablesBeside, uniqueName } from "./ranges.ts";

interface Pool {
  readonly name: string;
  readonly target: PostgresqlTarget;
  end(): Promise<unknown>;
}

function pools(url: string): readonly Pool[] {
  const sql = postgres(url, { max: 8, onnotice: () => {} });
  const pool = new pg.Pool({ connectionString: url, max: 8 });
  pool.on("error", () => {});
  return [
    { name: "postgres", target: sql, end: () => sql.end({ timeout: 0 }) },
    { name: "pg", target: pool, end: () => pool.end() },
  ];
}

for (const { name: server, url } of askedServers().filter(({ name }) => name === "pgbouncer")) {
  for (const driver of ["postgres", "pg"]) {
    for (const fetchPlan of ["statement", "transaction"] as const) {
      Deno.test(
        `${server} (${driver}) › with prepared statements on, calls end and no value is given twice, ` +
          `plan ${fetchPlan}`,
        async () => {
          const tables = tablesBeside(uniqueName("t"));
          const opened = pools(url);
          let ended: Promise<unknown> | undefined;
          const end = () => ended ??= Promise.all(opened.map(({ end }) => end()));
          const admin = postgres(url, { max: 1, prepare: false, onnotice: () => {} });
          try {
            const right = await openStore(admin, {
              ...tables,
              initSchema: true,
              prepare: false,
              exclusive: true,
            });
            const found = opened.find(({ name }) => name === driver);
            assert(found !== undefined);
            const drawn: Range[] = [];
            const failures: unknown[] = [];
            const store = await openStore(found.target, {
              ...tables,
              fetchPlan,
              groupReserve: false,
              timeoutMs: 1_000,
            }).catch((error) => void failures.push(error));
            for (let round = 0; round < 5 && store !== undefined; round++) {
              const calls = Array.from({ length: 24 }, () => store.ranges.reserve("order", 3));
              const { values, errors } = sorted(
                await settles(Promise.allSettled(calls), "every call to end"),
              );
              drawn.push(...values);
              failures.push(...errors);
            }
            for (const error of failures) assertInstanceOf(error, FencepostError);
            assertNotEquals(drawn.length + failures.length, 0);
            // Calls of postgres.js that never settled hold their transactions open until it ends.
            await end();
            drawn.push(await right.ranges.reserve("order", 3));
            assertDisjoint(drawn);
          } finally {
            await end();
            for (const table of Object.values(tables)) {
              await admin.unsafe(`drop table if exists "${table}"`);
            }
            await admin.end();
          }
        },
      );
    }
  }
}
