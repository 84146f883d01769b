/**
 * Every statement that the store sends to SQL Server, as the driver gets it, is T-SQL by its grammar.
 *
 * The statements are collected while the whole compatibility kit runs over the real driver, against the
 * stand-in in tests/tds. What is left of the dialect's sources is then looked for among them, so that
 * a statement that no case sends does not escape.
 *
 * @module
 */

import { assert, assertEquals, assertGreater } from "@std/assert";
import { scriptText, type Statement } from "../../core/sql/statement.ts";
import { tablesOf } from "../../core/sql/tables.ts";
import { alone } from "../../dialects/sqlserver/dialect.ts";
import { schemaScript } from "../../schema/script.ts";
import { bracketed, sqlserverSchema } from "../../schema/sqlserver.ts";
import { runOn } from "../databases/context.ts";
import { sqlserver } from "../databases/sqlserver.ts";
import { tckCases } from "../tck/mod.ts";
import { startTdsDatabase } from "../tds/database.ts";
import { syntaxErrors } from "../tds/grammar.ts";

let collecting: Promise<ReadonlySet<string>> | undefined;

/** What the kit sends, each text once, whatever the names of its tables. */
function sentTexts(): Promise<ReadonlySet<string>> {
  return collecting ??= (async () => {
    const texts = new Set<string>();
    for (const { run } of tckCases) {
      await using server = await startTdsDatabase();
      for (const driver of sqlserver(server.url)) await runOn(driver, run);
      for (const { text } of server.asked) {
        if (text === "") continue;
        texts.add(text.replaceAll(/\[(ranges|slots|namespaces)_\w+\]/gi, "[$1]"));
      }
    }
    return texts;
  })();
}

/** What `initSchema` may send, also for tables that no case makes. */
function schemaTexts(): string[] {
  const tables = tablesOf({
    rangeTable: "dbo.Order",
    slotTable: "dbo.Slot",
    namespaceTable: "dbo.Namespace",
  });
  const text = (statement: Statement) => scriptText(alone(statement), bracketed);
  return (["range", "slot"] as const)
    .flatMap((feature) => sqlserverSchema(feature, tables))
    .flatMap(({ create, columns }) => [create, ...columns.values()])
    .map(text);
}

Deno.test("every statement that the kit sends to SQL Server is T-SQL", async () => {
  const texts = await sentTexts();
  assertGreater(texts.size, 20);
  for (const text of texts) assertEquals(syntaxErrors(text), [], text);
});

Deno.test("every statement that makes or completes a table on SQL Server is T-SQL", () => {
  for (const text of [...schemaTexts(), schemaScript("sqlserver")]) {
    assertEquals(syntaxErrors(text), [], text);
  }
});

Deno.test("no statement of SQL Server's dialect escapes the grammar", async () => {
  const seen = [...await sentTexts(), ...schemaTexts()].map(oneLine);
  const pieces: string[] = [];
  for (
    const path of [
      "dialects/sqlserver/dialect.ts",
      "dialects/sqlserver/mssql.ts",
      "dialects/sqlserver/mod.ts",
      "schema/sqlserver.ts",
    ]
  ) {
    const source = await Deno.readTextFile(new URL(`../../${path}`, import.meta.url));
    for (const [, template = ""] of source.matchAll(/\bsql`([^`]*)`/g)) {
      const text = template.replaceAll("\\n", "\n");
      pieces.push(...text.split(/\$\{[^}]*\}/).map(oneLine).filter((piece) => piece !== ""));
    }
  }
  assertGreater(pieces.length, 30);
  for (const piece of pieces) {
    assert(seen.some((text) => text.includes(piece)), `it is in no statement: ${piece}`);
  }
});

function oneLine(text: string): string {
  return text.replaceAll(/\s+/g, " ").trim();
}

const foreign: Readonly<Record<string, string>> = {
  "a MERGE without its semicolon": "merge [t] as known using (select @p1 as k) as asked " +
    "on known.k = asked.k when not matched then insert (k) values (asked.k)",
  "LIMIT": "select a from [t] order by a limit 1",
  "ON CONFLICT": "insert into [t] (a) values (1) on conflict do nothing",
  "ON DUPLICATE KEY": "insert into [t] (a) values (1) on duplicate key update a = 2",
  "RETURNING": "insert into [t] (a) values (1) returning a",
  "FOR UPDATE": "select a from [t] where a = 1 for update",
  "IF NOT EXISTS": "create table if not exists [t] (a bigint)",
  "a cast with colons": "select @p1::bigint",
  "a parameter that is a question mark": "select a from [t] where a = ?",
  "backticks": "select `a` from [t]",
  "a parenthesis that is not closed": "select (1 from [t]",
};

for (const [what, text] of Object.entries(foreign)) {
  Deno.test(`the grammar of T-SQL refuses ${what}`, () => {
    assertGreater(syntaxErrors(text).length, 0);
  });
}
