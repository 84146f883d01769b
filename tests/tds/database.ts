/**
 * Answers for the stand-in server: the statements that the store sends to SQL Server, translated, on
 * SQLite.
 *
 * So the whole compatibility kit runs over the real driver, and every statement that the dialect sends
 * can be collected. It shows that values, results, errors, deadlines and transactions make their way
 * through the driver. It cannot show that SQL Server takes the statements, or does with them what
 * SQLite does with their translation. A statement that it cannot translate is an error.
 *
 * @module
 */

import { DatabaseSync } from "node:sqlite";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { removeFolder, temporaryFolder } from "../servers/temporary.ts";
import type { ColumnType, Result, ServerError, Value } from "./bytes.ts";
import { type Answered, type Asked, startTds, type TdsServer, type TdsSession } from "./server.ts";

/** A stand-in with a database. */
export interface TdsDatabase extends TdsServer {
  /**
   * What the server says it is, and how its database is set up. What it says of columns of text is that
   * of every table, or of the one that it names.
   */
  readonly about: {
    banner: string;
    version: string;
    edition: bigint;
    delayedDurability: string;
    temporary: boolean;
    durability: string;
    collation: string;
    type: string;
    /** How many bytes they have; as many as they were declared with if it is undefined. */
    bytes: bigint | undefined;
    /** The part of the names of tables that this is about. */
    table: string;
    /** The type of integers that were declared with 64 bits. */
    integer: string;
  };
  /** Answers an asked-for statement before the database does, if it gives an answer. */
  interfere: (asked: Asked) => Answered | undefined | Promise<Answered | undefined>;
  /** Makes of the database's answer what is sent. */
  around: (answered: Answered) => Answered;
}

/** Starts one. */
export async function startTdsDatabase(): Promise<TdsDatabase> {
  const folder = await temporaryFolder("tds");
  const file = join(folder, "shop.db");
  const connections = new Map<TdsSession, DatabaseSync>();
  const open = () => {
    const database = new DatabaseSync(file, { timeout: 0 });
    database.exec("pragma journal_mode = wal; pragma synchronous = off");
    return database;
  };
  const main = open();
  const about: TdsDatabase["about"] = {
    banner: "Microsoft SQL Server 2022 (RTM) - 16.0.1000.6 (X64) on Linux",
    version: "16.0.1000.6",
    edition: 3n,
    delayedDurability: "DISABLED",
    temporary: false,
    durability: "SCHEMA_AND_DATA",
    collation: "Latin1_General_100_BIN2",
    type: "nvarchar",
    bytes: undefined,
    table: "",
    integer: "bigint",
  };
  const server = await startTds(async (asked) => {
    const { session, signal } = asked;
    if (!connections.has(session)) {
      connections.set(session, open());
      // A server takes back what was begun on a connection that goes.
      session.ended.then(() => connections.get(session)?.close());
    }
    const connection = connections.get(session) ?? main;
    const interfering = await database.interfere(asked);
    if (interfering?.rolledBack && connection.isTransaction) connection.exec("rollback");
    if (interfering !== undefined) return interfering;
    return signal.aborted ? {} : database.around(await run(connection, asked, about));
  });
  const database: TdsDatabase = {
    about,
    interfere: () => undefined,
    around: (answered) => answered,
    url: server.url,
    port: server.port,
    asked: server.asked,
    sessions: server.sessions,
    get turns() {
      return server.turns;
    },
    get attentions() {
      return server.attentions;
    },
    forget: () => server.forget(),
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      await Promise.all([...connections.keys()].map(({ ended }) => ended));
      main.close();
      await removeFolder(folder);
    },
  };
  return database;
}

/** What decides whether a statement is run, before and after it in its batch. */
const guard = /^if @@trancount > (\d) or \(@@options & 2\) = 2\s+begin\s[^;]+;\s+return;\s+end;\s/;
const count = /;\s+select cast\(@@rowcount as bigint\) as fencepost_count;\s*$/;

async function run(
  database: DatabaseSync,
  asked: Asked,
  about: TdsDatabase["about"],
): Promise<Answered> {
  const { kind, session } = asked;
  if (kind === "begin") {
    if (session.transactions === 0) database.exec("begin");
    return {};
  }
  if (kind === "commit" || kind === "rollback") {
    if (kind === "rollback" || session.transactions === 1) database.exec(kind);
    return {};
  }
  // What a careless application does to a connection that it gives back.
  const [, careless] = /^(begin|rollback) transaction$/.exec(asked.text) ?? [];
  if (careless !== undefined) {
    session.transactions = careless === "begin" ? 1 : 0;
    database.exec(careless);
    return {};
  }
  const [guarded = "", most] = guard.exec(asked.text) ?? [];
  if (most !== undefined && (session.transactions > Number(most) || session.implicit)) {
    return { results: [{ ...one("fencepost_open", BigInt(session.transactions)) }] };
  }
  const counts = count.test(asked.text);
  const text = asked.text.slice(guarded.length).replace(count, "").trim();
  const known = answerOf(database, text, { asked, about });
  if (known !== undefined) return { results: [known] };
  for (;;) {
    try {
      return statement(database, text, { asked, counts });
    } catch (error) {
      if (!(error instanceof Error) || !("errcode" in error)) throw error;
      // What it is to lock was changed since the transaction began to read.
      if (error.errcode === 517) {
        const error = { number: 3960, message: "Snapshot isolation transaction aborted" };
        database.exec("rollback");
        return { error, rolledBack: true };
      }
      const code = Number(error.errcode) & 0xff;
      if (code !== 5 && code !== 6) return { error: errorOf(error) };
    }
    // Somebody holds the lock.
    if (asked.signal.aborted) return {};
    await setTimeout(2);
  }
}

function one(name: string, value: bigint): Result {
  return { columns: [{ name, type: "bigint" }], rows: [[value]] };
}

function row(values: Readonly<Record<string, Value>>): Result {
  const columns = Object.entries(values).map(([name, value]) => ({ name, type: typeOf(value) }));
  return { columns, rows: [Object.values(values)] };
}

function typeOf(value: Value): ColumnType {
  return typeof value === "bigint" ? "bigint" : typeof value === "boolean" ? "bit" : "nvarchar";
}

/** The answers to what asks about the server and its catalogue. */
function answerOf(
  database: DatabaseSync,
  text: string,
  { asked, about }: { asked: Asked; about: TdsDatabase["about"] },
): Result | undefined {
  if (/^select\s+cast\(@@version as /.test(text)) {
    const { banner, version } = about;
    const compared = { large: 9007199254740993n, small: -1n, yes: true, no: false, words: " Aé " };
    return row({ banner, version, ...compared });
  }
  if (/\bfrom sys\.databases as d\b/.test(text)) {
    const { version, edition, delayedDurability, temporary } = about;
    return row({ version, edition, delayed_durability: delayedDurability, temporary });
  }
  const name = String(asked.parameters[0]?.value).replace(/^.*\[(\w+)\]$/, "$1");
  const isMeant = name.toLowerCase().includes(about.table.toLowerCase());
  if (/\bfrom sys\.tables as t\b/.test(text)) {
    const key = /\bnamespace\b/.test(createdAs(database, name)) ? "namespace" : "range_key";
    const narrow = isMeant && about.type === "varchar" ? key : "";
    return row({ durability: isMeant ? about.durability : "SCHEMA_AND_DATA", narrow });
  }
  if (/\bfrom sys\.columns\b/.test(text)) {
    const columns = [
      ...["name", "type", "collation"].map((name) => ({ name, type: "nvarchar" }) as const),
      { name: "bytes", type: "bigint" } as const,
    ];
    const found = database.prepare("select name, type from pragma_table_info(?)").all(name);
    const rows = found.map(({ name, type }) => {
      const declared = /^(n?)(?:var)?char\((\d+)\)$/i.exec(String(type));
      if (declared === null) {
        const isLarge = isMeant && type === "bigint";
        return [String(name), isLarge ? about.integer : String(type), "", 8n];
      }
      if (!isMeant) return [String(name), "nvarchar", "Latin1_General_100_BIN2", bytesOf(declared)];
      return [String(name), about.type, about.collation, about.bytes ?? bytesOf(declared)];
    });
    return { columns, rows };
  }
}

/** How many bytes a column of text has that was declared so. */
function bytesOf([, national, length]: RegExpExecArray): bigint {
  return BigInt(length ?? 0) * (national === "n" ? 2n : 1n);
}

function createdAs(database: DatabaseSync, table: string): string {
  const found = database.prepare("select sql from sqlite_master where name = ?").get(table);
  return String(found?.sql);
}

const clock = "cast((julianday('now') - 2440587.5) * 86400000 as integer)";

/** A statement as SQLite has it. */
function translated(text: string): string {
  const merge = new RegExp(
    "^declare @reserved table .*? merge (?<table>\\S+) with \\(updlock, holdlock, rowlock\\) as known " +
      "using \\(select (?<key>@p\\d) as range_key\\) as asked " +
      "on known.range_key = asked.range_key " +
      "when matched and known.sealed = 0 and known.next_value <= (?<most>@p\\d) then " +
      "update set next_value = known.next_value \\+ (?<size>@p\\d) " +
      "when not matched then insert \\(range_key, next_value, sealed\\) " +
      "values \\(asked.range_key, (?<first>@p\\d), 0\\) " +
      "output inserted.next_value into @reserved; " +
      "select next_value(?<nonce>, @p\\d as nonce)? from @reserved;$",
  ).exec(text.replaceAll(/\s+/g, " "))?.groups;
  if (merge !== undefined) {
    const { table, key, most, size, first, nonce = "" } = merge;
    return plain(
      `insert into ${table} as known (range_key, next_value, sealed) values (${key}, ${first}, 0) ` +
        `on conflict (range_key) do update set next_value = known.next_value + ${size} ` +
        `where known.sealed = 0 and known.next_value <= ${most} returning next_value${nonce}`,
    );
  }
  const update = new RegExp(
    "^declare @now bigint = (?<now>[^;]+); " +
      "declare @written table \\( slot integer not null, fence bigint not null, " +
      "expires_at bigint not null, floor_ms bigint not null, ceiling_ms bigint not null \\); " +
      "update (?<table>\\S+) with \\(updlock, rowlock\\) set (?<set>.+) " +
      "output inserted.slot, inserted.fence, inserted.expires_at, inserted.floor_ms, " +
      "inserted.ceiling_ms into @written where (?<where>.+); " +
      "select slot, fence, expires_at, floor_ms, ceiling_ms, @now as now_ms, (?<nonce>@p\\d+) as nonce " +
      "from @written;$",
  ).exec(text.replaceAll(/\s+/g, " "))?.groups;
  if (update !== undefined) {
    const { table, set, where, nonce, now = "" } = update;
    return plain(
      `update ${table} set ${set} where ${where} ` +
        `returning slot, fence, expires_at, floor_ms, ceiling_ms, @now as now_ms, ${nonce} as nonce`,
    ).replaceAll("@now", plain(now));
  }
  return plain(text);
}

function plain(text: string): string {
  return text
    .replace(/^if object_id\(N'\S+'\) is null\s+create table/, "create table")
    .replace(/^if col_length\(N'\S+', N'\w+'\) is null\s+(?=alter table)/, "")
    .replaceAll(/ collate Latin1_General_100_BIN2\b/g, "")
    .replaceAll(/\bN'/g, "'")
    .replaceAll(" with (updlock, holdlock, rowlock)", "")
    .replace(/ offset 0 rows fetch next (\d+) rows only$/, " limit $1")
    .replaceAll("datediff_big(millisecond, '1970-01-01', sysutcdatetime())", clock)
    .replaceAll("[dbo].", "");
}

/** Columns that are no column of a table, and an integer of 32 bits on SQL Server. */
const counted: ReadonlySet<string> = new Set(["mine", "provisioned"]);

function statement(
  database: DatabaseSync,
  text: string,
  { asked, counts }: { asked: Asked; counts: boolean },
): Answered {
  const [, locked] = /^select\b.* from (\S+) with \(updlock, /s.exec(text) ?? [];
  // A read takes no lock there, and a write takes that of all tables.
  if (locked !== undefined && database.isTransaction) {
    database.prepare(plain(`delete from ${locked} where false`)).run();
  }
  const prepared = database.prepare(translated(text));
  prepared.setReadBigInts(true);
  const parameters = Object.fromEntries(
    asked.parameters.map(({ name, value }) => [name, typeof value === "boolean" ? null : value]),
  );
  const columns = prepared.columns().map(({ name, type }) => ({
    name,
    type: type === "bit" || type === "boolean"
      ? "bit"
      : type === "integer" || counted.has(name)
      ? "int"
      : /char/.test(type ?? "")
      ? "nvarchar"
      : "bigint",
  } as const));
  if (columns.length === 0) {
    const { changes } = prepared.run(parameters);
    const changed = { counts: [Number(changes)] };
    return counts ? { ...changed, results: [one("fencepost_count", BigInt(changes))] } : changed;
  }
  const rows = prepared.all(parameters).map((row) => [...Object.values(row)] as Value[]);
  return { results: [{ columns, rows }] };
}

/** The numbers of SQL Server for what SQLite says. */
function errorOf(error: Error): ServerError {
  const numbers: readonly (readonly [RegExp, number])[] = [
    [/^no such table/, 208],
    [/^no such column/, 207],
    [/^UNIQUE constraint/, 2627],
    [/already exists$/, 2714],
    [/^duplicate column/, 2705],
  ];
  const number = numbers.find(([words]) => words.test(error.message))?.[1] ?? 50000;
  return { number, message: error.message };
}
