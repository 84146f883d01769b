/**
 * A client and a dialect over a map, for tests that need no database.
 *
 * @module
 */

import type { StoreErrorKind } from "../../core/errors.ts";
import {
  type Client,
  type QueryOptions,
  runScript,
  type ServerInfo,
  type Session,
  type TransactionScript,
} from "../../core/sql/client.ts";
import {
  type ColumnInfo,
  Dialect,
  type Feature,
  type ReserveRequest,
  type TableSchema,
} from "../../core/sql/dialect.ts";
import { type QueryResult, Row } from "../../core/sql/row.ts";
import { type Identifier, sql, type Statement } from "../../core/sql/statement.ts";
import type { PresentTables, Tables } from "../../core/sql/tables.ts";

/** What a client does with a statement. */
export type Answer = (statement: Statement, options?: QueryOptions) => Promise<QueryResult>;

/** A result of one row, or of none. */
export function result(cells?: Readonly<Record<string, unknown>>): QueryResult {
  if (cells === undefined) return { rows: [], affected: 0 };
  return { rows: [new Row(Object.keys(cells), Object.values(cells))], affected: 1 };
}

/** A client that keeps ranges in a map, unless it is told to answer otherwise. */
export class MemoryClient implements Client {
  readonly family = "memory";
  /** The names of the statements that were sent. */
  readonly sent: string[] = [];
  /** The next value of each key. */
  readonly next = new Map<string, bigint>();
  /** How often it was closed. */
  closed = 0;
  readonly #info: ServerInfo;
  readonly #answer: Answer | undefined;

  constructor(options: { server?: ServerInfo; answer?: Answer } = {}) {
    this.#info = options.server ?? { product: "Memory", version: "1.5" };
    this.#answer = options.answer;
  }

  server({ name }: QueryOptions): Promise<ServerInfo> {
    this.sent.push(name);
    return Promise.resolve(this.#info);
  }

  query(statement: Statement, options: QueryOptions): Promise<QueryResult> {
    this.sent.push(options.name);
    if (this.#answer) return this.#answer(statement, options);
    const [, key, size, first] = statement.parts;
    const [before, add] = [this.next.get(String(key)), BigInt(String(size))];
    const next = before === undefined ? BigInt(String(first)) + add : before + add;
    this.next.set(String(key), next);
    return Promise.resolve(result({ next_value: next }));
  }

  transaction<T>(script: TransactionScript<T>, options: QueryOptions): Promise<T> {
    return runScript(script, (statement) => this.query(statement, options));
  }

  session(): Session {
    throw new TypeError("A map has no transactions of others");
  }

  close(): Promise<void> {
    this.closed++;
    return Promise.resolve();
  }
}

/** A dialect that any client of the tests understands. */
export class MemoryDialect extends Dialect {
  override readonly name: string;
  override readonly nowMillis: Statement = sql`0`;
  /** The servers that it was asked about. */
  readonly asked: ServerInfo[] = [];
  /** The columns that the table of ranges has. */
  has: readonly ColumnInfo[] = [{ name: "range_key" }, { name: "next_value" }, { name: "sealed" }];
  /** The columns that the table of slots has. */
  hasSlots: readonly ColumnInfo[] = [{ name: "slot" }];
  /** The columns whose texts only the library makes. */
  tokens: ReadonlySet<string> = new Set();
  /** The settings of the server that it finds weak. */
  weak: readonly string[] = [];
  /** The names of the tables whose settings it was asked about, each time. */
  readonly weighed: string[][] = [];
  readonly #product: string;

  constructor(name = "memory", product = "Memory") {
    super();
    this.name = name;
    this.#product = product;
  }

  override supports(server: ServerInfo): boolean {
    this.asked.push(server);
    return server.product === this.#product;
  }

  override schema(feature: Feature, tables: Tables): readonly TableSchema[] {
    const table = tables[feature];
    const columns = feature === "range" ? ["range_key", "next_value", "sealed"] : ["slot"];
    const add = sql`alter table ${table} add`;
    return [{
      table,
      create: sql`create table ${table}`,
      columns: new Map(columns.map((name) => [name, add])),
      tokens: this.tokens,
    }];
  }

  override columns(_session: Session, { name }: Identifier): Promise<readonly ColumnInfo[]> {
    return Promise.resolve(name.endsWith("slot") ? this.hasSlots : this.has);
  }

  override weaknesses(
    _session: Session,
    tables: PresentTables,
  ): Promise<readonly string[]> {
    this.weighed.push(Object.values(tables).map(String));
    return Promise.resolve(this.weak);
  }

  override async reserve(session: Session, request: ReserveRequest): Promise<bigint | undefined> {
    const { table, key, size, initialOffset } = request;
    const { rows } = await session.query(sql`reserve ${table} ${key} ${size} ${initialOffset}`);
    return rows[0]?.bigint("next_value");
  }

  override insertRangeIfAbsent(
    { table, key, nextValue }: { table: Identifier; key: string; nextValue: bigint },
  ): Statement {
    return sql`insert ${table} ${key} ${0n} ${nextValue}`;
  }

  override classify(error: unknown): StoreErrorKind {
    return error instanceof Error && error.message.startsWith("kind ")
      ? error.message.slice("kind ".length) as StoreErrorKind
      : "other";
  }
}
