import { assertEquals, assertStringIncludes } from "@std/assert";
import { type Dialect, openStore, type SlotUpdate, sql, type Statement } from "@fencepost/store";
import { openStore as openPostgresql } from "@fencepost/store/postgresql";
import { openStore as openSqlite } from "@fencepost/store/sqlite";
import { slotCases, tckCases, type TckContext } from "@fencepost/store/tck";
import postgres from "postgres";
import { MyPostgresqlDialect } from "../examples/postgresql_dialect.ts";
import { MySqliteDialect } from "../examples/sqlite_dialect.ts";
import { runOnSqlite } from "../examples/tck_context.ts";
import { runOn } from "./databases/context.ts";
import type { Driver } from "./databases/driver.ts";
import { postgresql } from "./databases/postgresql.ts";
import { askedServers } from "./servers/asked.ts";
import { withTemporaryFolder } from "./package/tarball.ts";

/** PostgreSQL with what the base class has for slots. */
class PlainPostgresqlDialect extends MyPostgresqlDialect {
  override readonly returnsSlots = false;

  override updateSlot({ table, set, where }: SlotUpdate): Statement {
    const now = this.nowMillis;
    return sql`update ${table} set ${set(now)} where ${where(now)}`;
  }
}

type Work = (context: TckContext) => Promise<void>;

/** Runs a case with the dialect as one that is tried first, or as the one that is used. */
const ways: Readonly<Record<string, (work: Work, dialect: Dialect) => Work>> = {
  "dialects: [mine]": (work) => work,
  "dialect: mine": (work, dialect) => (context) =>
    work({ ...context, open: (options) => context.open({ dialect, ...options }) }),
};

function testAll(name: string, dialect: Dialect, run: (work: Work) => Promise<void>): void {
  for (const [way, through] of Object.entries(ways)) {
    for (const { name: rule, run: work } of tckCases) {
      Deno.test(`${name} › a dialect of one's own, ${way} › ${rule}`, () =>
        run(through(work, dialect)));
    }
  }
}

for (const { name, url } of askedServers()) {
  if (name === "sqlite") {
    const dialect = new MySqliteDialect();
    testAll(
      name,
      dialect,
      (work) =>
        withTemporaryFolder((folder) => runOnSqlite(work, { file: `${folder}/test.db`, dialect })),
    );

    Deno.test(`${name} › a dialect of one's own is tried before the built-in one`, async () => {
      for (const open of [openSqlite, openStore]) {
        const store = await open("sqlite::memory:", { dialects: [dialect], initSchema: true });
        assertEquals(store.dialect, "my-sqlite");
        assertEquals(await store.ranges.reserve("order", 10), { start: 1n, end: 11n });
        await store.close();
        const named = await open("sqlite::memory:", {
          dialects: [dialect],
          dialect: "sqlite",
          initSchema: true,
        });
        assertEquals(named.dialect, "sqlite");
        await named.close();
      }
    });
  }
  if (/^postgresql-/.test(name)) {
    const dialect = new MyPostgresqlDialect();
    const [driver] = postgresql(url);
    const custom: Driver = { ...driver!, dialect };
    testAll(name, dialect, (work) => runOn(custom, work));

    const plain = new PlainPostgresqlDialect();
    for (const { name: rule, run: work } of slotCases) {
      Deno.test(`${name} › a dialect of one's own, with nothing for slots › ${rule}`, () =>
        runOn({ ...custom, dialect: plain }, work));
    }

    Deno.test(`${name} › a dialect of one's own is tried before the built-in one`, async () => {
      const admin = postgres(url, { onnotice: () => {} });
      const unique = crypto.randomUUID().replaceAll("-", "_");
      const tables = {
        rangeTable: `ranges_${unique}`,
        slotTable: `slots_${unique}`,
        namespaceTable: `namespaces_${unique}`,
      };
      try {
        const options = { dialects: [dialect], ...tables, initSchema: true };
        const store = await openPostgresql(admin, options);
        assertEquals(store.dialect, "my-postgresql");
        assertEquals(await store.ranges.reserve("order", 10), { start: 1n, end: 11n });
      } finally {
        for (const table of Object.values(tables)) {
          await admin.unsafe(`drop table if exists "${table}"`);
        }
        await admin.end();
      }
    });
  }
}

Deno.test("docs/dialects.md shows the dialects that are tested", async () => {
  const root = new URL("../", import.meta.url);
  const page = await Deno.readTextFile(new URL("docs/dialects.md", root));
  for (const file of ["sqlite_dialect.ts", "postgresql_dialect.ts", "tck_context.ts"]) {
    const text = await Deno.readTextFile(new URL(`examples/${file}`, root));
    assertStringIncludes(page, `\`\`\`ts\n${text}\`\`\`\n`);
  }
});
