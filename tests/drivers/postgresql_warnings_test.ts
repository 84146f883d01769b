import { assertEquals } from "@std/assert";
import postgres from "postgres";
import { openStore } from "../../dialects/postgresql/mod.ts";
import { askedServers } from "../servers/asked.ts";
import { tablesBeside, uniqueName } from "./ranges.ts";

for (const { name, url } of askedServers().filter(({ name }) => name.startsWith("postgresql"))) {
  for (const setting of ["on", "off", "local"]) {
    const weak = setting === "off";
    Deno.test(
      `${name} (postgres) › synchronous_commit ${setting} is ${weak ? "" : "not "}reported`,
      async () => {
        const connection = { synchronous_commit: setting };
        const sql = postgres(url, { onnotice: () => {}, connection });
        const tables = tablesBeside(uniqueName("ranges"));
        const events: string[] = [];
        try {
          const store = await openStore(sql, {
            ...tables,
            initSchema: true,
            onEvent: (event) => void (event.type === "warning" && events.push(event.message)),
          });
          const found = store.warnings.filter((text) =>
            text.startsWith("synchronous_commit is off")
          );
          assertEquals(found.length, weak ? 1 : 0);
          assertEquals(events, [...store.warnings]);
        } finally {
          for (const table of Object.values(tables)) {
            await sql`drop table if exists ${sql(table)}`;
          }
          await sql.end();
        }
      },
    );
  }
}
