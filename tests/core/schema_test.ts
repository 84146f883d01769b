import { assert, assertEquals, assertThrows } from "@std/assert";
import { doubleQuoted, Identifier, scriptText } from "../../core/sql/statement.ts";
import { tablesOf } from "../../core/sql/tables.ts";
import { postgresqlSchema } from "../../schema/postgresql.ts";
import { schemaScript, scriptNames } from "../../schema/script.ts";
import { sqliteSchema } from "../../schema/sqlite.ts";

const folder = new URL("../../schema/", import.meta.url);
const schemas = { postgresql: postgresqlSchema, sqlite: sqliteSchema };

for (const name of scriptNames) {
  Deno.test(`schema/${name}.sql is what the library creates`, async () => {
    assertEquals(await Deno.readTextFile(new URL(`${name}.sql`, folder)), schemaScript(name));
  });
}

Deno.test("every script in schema/ is of a database that is known", async () => {
  const scripts: string[] = [];
  for await (const { name } of Deno.readDir(folder)) {
    if (name.endsWith(".sql")) scripts.push(name.slice(0, -".sql".length));
  }
  assertEquals(scripts.sort(), [...scriptNames].sort());
  assertThrows(() => schemaScript("oracle"), TypeError, "oracle");
});

for (const [name, schema] of Object.entries(schemas)) {
  Deno.test(`on ${name} the names that were configured are used throughout`, () => {
    const tables = tablesOf({ rangeTable: "Shop.Order" });
    for (const { table, create, columns } of schema("range", tables)) {
      assertEquals(table, tables.range);
      const texts = [create, ...columns.values()]
        .map((statement) => scriptText(statement, doubleQuoted));
      for (const text of texts) {
        assert(text.includes('"Shop"."Order"'), text);
        assert(!text.includes("cosid_range"), text);
      }
    }
  });

  Deno.test(`on ${name} the columns are those that Java services share`, () => {
    const [range] = schema("range", tablesOf());
    assertEquals([...range?.columns.keys() ?? []], ["range_key", "next_value", "sealed"]);
    const text = range ? scriptText(range.create, doubleQuoted).replaceAll(/\s+/g, " ") : "";
    for (
      const part of [
        '"cosid_range"',
        "range_key varchar(255)",
        "not null primary key",
        "next_value bigint not null",
        "sealed boolean not null default false",
      ]
    ) assert(text.includes(part), `${part} is not in ${text}`);
  });
}

Deno.test("a table has its default name unless another is configured", () => {
  assertEquals(tablesOf().range, Identifier.parse("cosid_range", "rangeTable"));
  assertEquals(tablesOf({}).range.toString(), "cosid_range");
  assertEquals(tablesOf({ rangeTable: "a.b" }).range.toString(), "a.b");
  assertThrows(() => tablesOf({ rangeTable: "a b" }), Error, "rangeTable");
});
