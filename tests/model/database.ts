/**
 * The database of the model: SQLite in memory, one connection for all processes, with a clock that is a
 * row of a table. Every write is followed by a look at the rows.
 *
 * @module
 */

import { DatabaseSync, type StatementSync } from "node:sqlite";
import { type ColumnInfo, Dialect, type Feature, type SlotTake } from "../../core/sql/dialect.ts";
import { type QueryResult, Row } from "../../core/sql/row.ts";
import {
  type Bindable,
  doubleQuoted,
  Identifier,
  sql,
  Statement,
} from "../../core/sql/statement.ts";
import { tablesOf } from "../../core/sql/tables.ts";
import { sqliteDialect } from "../../dialects/sqlite/dialect.ts";
import type { Form } from "./schedule.ts";

/** The one namespace of the model. */
export const namespace = "model";

/** A row of slots, as it is in the table. */
export interface SlotRow {
  readonly slot: number;
  readonly owner_key: string | null;
  readonly incarnation: string | null;
  readonly fence: number;
  readonly expires_at: number;
  readonly floor_ms: number;
  readonly ceiling_ms: number;
  readonly next_floor_ms: number;
}

interface Prepared {
  readonly statement: StatementSync;
  readonly names: readonly string[];
  readonly writes: boolean;
}

/** What a statement did. */
export interface Execution {
  readonly result: QueryResult;
  /** The values that were bound. */
  readonly values: readonly unknown[];
  /** The rows before and after; undefined for a read. */
  readonly change:
    | { readonly before: readonly SlotRow[]; readonly after: readonly SlotRow[] }
    | undefined;
}

/** SQLite in memory, with a clock of the model's. */
export class ModelDatabase implements Disposable {
  readonly #database = new DatabaseSync(":memory:");
  readonly #prepared = new Map<string, Prepared>();
  /** The model's own statements. */
  readonly #own: Readonly<
    Record<
      "clear" | "clearNamespace" | "look" | "provision" | "setClock" | "settle",
      StatementSync
    >
  >;
  #clockMs = 0;
  #rows: readonly SlotRow[] = [];

  constructor() {
    this.#database.exec(
      "create table clock (now_ms bigint not null); insert into clock values (0)",
    );
    for (const { create } of [...schemas.range, ...schemas.slot]) {
      this.#database.exec(textOf(create, []));
    }
    this.#own = {
      look: this.#database.prepare(
        "select slot, owner_key, incarnation, fence, expires_at, floor_ms, ceiling_ms, " +
          "next_floor_ms from cosid_slot order by slot",
      ),
      setClock: this.#database.prepare("update clock set now_ms = ?"),
      clear: this.#database.prepare("delete from cosid_slot"),
      clearNamespace: this.#database.prepare("delete from cosid_namespace"),
      settle: this.#database.prepare("insert into cosid_namespace values (?, ?, ?)"),
      provision: this.#database.prepare("insert into cosid_slot (namespace, slot) values (?, ?)"),
    };
  }

  /** The rows of slots as they are. */
  get rows(): readonly SlotRow[] {
    return this.#rows;
  }

  /** Closes it. */
  [Symbol.dispose](): void {
    this.#database.close();
  }

  /** Begins again with no rows, or with those of a namespace that was used before. */
  reset(settled: { limit: number; toleranceMs: number } | undefined): void {
    const { clear, clearNamespace, settle, provision } = this.#own;
    clear.run();
    clearNamespace.run();
    if (settled !== undefined) {
      const { limit, toleranceMs } = settled;
      settle.run(namespace, limit, toleranceMs);
      for (let slot = 0; slot < limit; slot++) provision.run(namespace, slot);
    }
    this.#refresh();
  }

  /** Carries out a statement while the clock of the database is at a time. */
  execute(statement: Statement, nowMs: number): Execution {
    const values: (bigint | string | null)[] = [];
    const text = textOf(statement, values);
    const { statement: prepared, names, writes } = this.#prepare(text);
    if (nowMs !== this.#clockMs) {
      this.#own.setClock.run(nowMs);
      this.#clockMs = nowMs;
    }
    let result: QueryResult;
    if (names.length === 0) {
      result = { rows: [], affected: Number(prepared.run(...values).changes) };
    } else {
      const rows = prepared.all(...values).map((row) =>
        new Row(names, names.map((name) => row[name]))
      );
      result = { rows, affected: rows.length };
    }
    if (!writes) return { result, values, change: undefined };
    const before = this.#rows;
    this.#refresh();
    return { result, values, change: { before, after: this.#rows } };
  }

  #refresh(): void {
    this.#rows = this.#own.look.all().map((row) => ({
      slot: Number(row.slot),
      owner_key: row.owner_key === null ? null : String(row.owner_key),
      incarnation: row.incarnation === null ? null : String(row.incarnation),
      fence: Number(row.fence),
      expires_at: Number(row.expires_at),
      floor_ms: Number(row.floor_ms),
      ceiling_ms: Number(row.ceiling_ms),
      next_floor_ms: Number(row.next_floor_ms),
    }));
  }

  #prepare(text: string): Prepared {
    let prepared = this.#prepared.get(text);
    if (prepared === undefined) {
      const statement = this.#database.prepare(text);
      statement.setReadBigInts(true);
      const names = statement.columns().map(({ name }) => name);
      prepared = { statement, names, writes: !/^\s*select/.test(text) };
      this.#prepared.set(text, prepared);
    }
    return prepared;
  }
}

/** Writes a statement out, every time: each store has identifiers of its own, so texts are found by text. */
function textOf({ strings, parts }: Statement, values: (bigint | string | null)[]): string {
  let text = strings[0] ?? "";
  parts.forEach((part, index) => {
    if (part instanceof Statement) text += textOf(part, values);
    else if (part instanceof Identifier) text += part.parts.map(doubleQuoted).join(".");
    else {
      text += "?";
      values.push(bindable(part));
    }
    text += strings[index + 1] ?? "";
  });
  return text;
}

function bindable(value: Bindable): string | bigint | null {
  if (typeof value === "boolean") return value ? 1n : 0n;
  return typeof value === "number" ? BigInt(value) : value;
}

const nowMillis = sql`(select now_ms from clock)`;

const schemas = {
  range: sqliteDialect.schema("range", tablesOf()),
  slot: sqliteDialect.schema("slot", tablesOf()),
};

const columns: readonly ColumnInfo[] = [...schemas.range, ...schemas.slot].flatMap((schema) =>
  [...schema.columns.keys()].map((name) => ({ name }))
);

/** What the shipped dialect would say of its tables, without the cost for each process that starts. */
const shared = {
  schema: { value: (feature: Feature) => schemas[feature] },
  nowMillis: { value: nowMillis },
  columns: { value: () => Promise.resolve(columns) },
  weaknesses: { value: () => Promise.resolve([]) },
};

function takeSlot(
  { table, candidates, order, settled, set, where, nonce }: SlotTake,
): Statement {
  return sql`
    update ${table}
    set ${set(nowMillis)}
    where ${where(nowMillis)} and ${settled} and slot = (
      select slot from ${table} where ${candidates(nowMillis)} order by ${order} limit 1
    )
    returning slot, fence, expires_at, floor_ms, ceiling_ms, ${nowMillis} as now_ms, ${nonce} as nonce
  `;
}

/** The dialect of SQLite, with the model's clock, in each form. */
export const dialects: Readonly<Record<Form, Dialect>> = {
  returning: Object.create(sqliteDialect, shared),
  take: Object.create(sqliteDialect, { ...shared, takeSlot: { value: takeSlot } }),
  bound: Object.create(sqliteDialect, {
    ...shared,
    returnsSlots: { value: false },
    updateSlot: { value: Dialect.prototype.updateSlot },
    lockRow: { value: {} },
  }),
};
