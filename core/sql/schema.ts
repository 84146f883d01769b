/**
 * Checks the tables of a store, and creates what is missing if asked.
 *
 * Many processes may do so at once: whoever meets an object that another has just created reads the
 * table again, and only what is still missing then is an error.
 *
 * @module
 */

import { ConfigurationError, SchemaError, StoreError } from "../errors.ts";
import type { Deadline } from "../runtime.ts";
import type { Database } from "./database.ts";
import type { ColumnInfo, TableSchema } from "./dialect.ts";
import type { Statement } from "./statement.ts";

/** Some databases show a table that somebody is just altering as if it, or a column, were not there. */
const maxRounds = 3;

/**
 * Checks tables, and creates what is missing if asked.
 *
 * @returns A sentence for each column in which different texts may count as equal.
 */
export async function prepareSchema(
  database: Database,
  options: { schemas: readonly TableSchema[]; create: boolean; deadline: Deadline },
): Promise<readonly string[]> {
  const { schemas, create, deadline } = options;
  const warnings: string[] = [];
  for (const schema of schemas) {
    let columns = await columnsOf(database, schema, deadline);
    for (let round = 0; create && round < maxRounds; round++) {
      const { statements } = missingOf(schema, columns);
      if (statements.length === 0) break;
      for (const statement of statements) await createUnlessThere(database, statement, deadline);
      columns = await columnsOf(database, schema, deadline);
    }
    refuseMissing(schema, columns, database.dialect.name);
    for (const { name, unusable } of columns) {
      if (unusable === undefined || !schema.columns.has(name)) continue;
      throw new ConfigurationError(
        `Cannot open store: column ${name} of table ${schema.table} cannot be used: ${unusable}`,
      );
    }
    for (const { name, inexact } of columns) {
      if (inexact !== undefined && schema.columns.has(name) && !schema.tokens?.has(name)) {
        warnings.push(
          `Column ${name} of table ${schema.table} may take different texts for equal: ${inexact}. ` +
            `Give it an exact collation, as the schema script does.`,
        );
      }
    }
  }
  return warnings;
}

function columnsOf(
  database: Database,
  schema: TableSchema,
  deadline: Deadline,
): Promise<readonly ColumnInfo[]> {
  const session = database.session({ name: "open.schema", deadline });
  return database.dialect.columns(session, schema.table);
}

function missingOf(
  schema: TableSchema,
  columns: readonly ColumnInfo[],
): { names: string[]; statements: Statement[] } {
  if (columns.length === 0) return { names: [], statements: [schema.create] };
  const names = [...schema.columns.keys()].filter((name) =>
    !columns.some((column) => column.name === name)
  );
  const statements = names.flatMap((name) => schema.columns.get(name) ?? []);
  return { names, statements };
}

async function createUnlessThere(
  database: Database,
  statement: Statement,
  deadline: Deadline,
): Promise<void> {
  const call = { name: "open.create", deadline };
  try {
    await database.retry(() => database.query(statement, call), call);
  } catch (error) {
    if (!(error instanceof StoreError && error.kind === "duplicate")) throw error;
  }
}

function refuseMissing(
  schema: TableSchema,
  columns: readonly ColumnInfo[],
  dialect: string,
): void {
  const { names } = missingOf(schema, columns);
  const table = schema.table.toString();
  const remedy = `pass initSchema: true or run schema/${dialect}.sql`;
  if (columns.length === 0) {
    throw new SchemaError(`Cannot open store: a table is missing, ${remedy}: received ${table}`, {
      table,
      missingColumns: [],
    });
  }
  if (names.length > 0) {
    throw new SchemaError(
      `Cannot open store: table ${table} lacks the columns ${names.join(", ")}, ${remedy}: ` +
        `received ${columns.map((column) => column.name).join(", ")}`,
      { table, missingColumns: names },
    );
  }
}
