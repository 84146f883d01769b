/**
 * All SQL that only SQL Server speaks.
 *
 * - A reserve is one MERGE, in one batch with the read of what it wrote. `holdlock` keeps the place of
 *   an absent key from others until the insert; without it two that meet no row both insert. The tests
 *   for sealed and full stand in `when matched`: in `on` they would turn a refusal into an insert. What
 *   it wrote goes into a table variable, for a table with a trigger allows no other OUTPUT.
 * - A statement counts what it changed by `@@rowcount`: the driver's counts stop with `nocount`, and
 *   hold those of triggers.
 * - A batch whose statement would not have a commit of its own, because a transaction is open or the
 *   session is in implicit mode, says so and does nothing.
 * - The store clock stands still within a statement, also while that waits for a lock.
 *
 * @module
 */

import type { StoreErrorKind } from "../../core/errors.ts";
import type { ServerInfo, Session } from "../../core/sql/client.ts";
import {
  bigintColumns,
  type ColumnInfo,
  Dialect,
  type Feature,
  longestTextIn,
  maxValue,
  nextValueOf,
  type RangeRow,
  type ReserveRequest,
  type RowLock,
  type SlotUpdate,
  type TableSchema,
} from "../../core/sql/dialect.ts";
import { type Identifier, literal, sql, type Statement } from "../../core/sql/statement.ts";
import type { PresentTables, Tables } from "../../core/sql/tables.ts";
import { bracketed, sqlserverSchema } from "../../schema/sqlserver.ts";
import { socketFailures } from "../shared/sockets.ts";

/** The column of the only row that a guarded batch answers with if it did nothing. */
export const openColumn = "fencepost_open";

/** The column that holds how many rows a statement changed. */
export const countColumn = "fencepost_count";

/** What the driver has to return as it is, and what the server is. */
export const selectServer: Statement = sql`
  select
    cast(@@version as nvarchar(400)) as banner,
    cast(serverproperty('ProductVersion') as nvarchar(128)) as version,
    cast(9007199254740993 as bigint) as large,
    cast(-1 as bigint) as small,
    cast(1 as bit) as yes,
    cast(0 as bit) as no,
    cast(N' Aé ' as nvarchar(8)) as words
`;

/** What the columns of {@linkcode selectServer} hold that are there to be compared. */
export const unchanged = {
  large: 9007199254740993n,
  small: -1n,
  yes: true,
  no: false,
  words: " Aé ",
};

/** A statement that runs only in a commit of its own. */
export function alone(statement: Statement): Statement {
  return sql`if @@trancount > 0 or (@@options & 2) = 2
begin
  select cast(@@trancount as bigint) as fencepost_open;
  return;
end;
${counted(statement)}`;
}

/** A statement that runs only in a transaction that stands in no other. */
export function innermost(statement: Statement): Statement {
  return sql`if @@trancount > 1 or (@@options & 2) = 2
begin
  select cast(@@trancount as bigint) as fencepost_open;
  return;
end;
${counted(statement)}`;
}

/** A statement with the number of rows that it changed, if it can change any and returns none. */
export function counted(statement: Statement): Statement {
  const [verb = ""] = statement.strings;
  return /^\s*(?:insert|update|delete)\b/i.test(verb)
    ? sql`${statement};
select cast(@@rowcount as bigint) as fencepost_count;`
    : statement;
}

/** The version of 2019. Lower ones down to 2017 are not refused. */
const testedMajor = 15;
const lowestMajor = 14;

class SqlserverDialect extends Dialect {
  override readonly name = "sqlserver";

  override readonly nowMillis: Statement =
    sql`datediff_big(millisecond, '1970-01-01', sysutcdatetime())`;

  override readonly lockRow = { hint: sql` with (updlock, holdlock, rowlock)` };

  override readonly ignoresTrailingSpace = true;

  override supports({ product, version }: ServerInfo): boolean {
    // Azure's is always the newest, whatever version it says it is.
    return product === "Microsoft SQL Azure" ||
      (product === "Microsoft SQL Server" && Number.parseInt(version) >= lowestMajor);
  }

  override schema(feature: Feature, tables: Tables): readonly TableSchema[] {
    return sqlserverSchema(feature, tables);
  }

  override async reserve(session: Session, request: ReserveRequest): Promise<bigint | undefined> {
    const { table, key, size, initialOffset, nonce } = request;
    const result = await session.query(sql`
      declare @reserved table (next_value bigint not null);
      merge ${table} with (updlock, holdlock, rowlock) as known
      using (select ${key} as range_key) as asked
      on known.range_key = asked.range_key
      when matched and known.sealed = 0 and known.next_value <= ${maxValue - size} then
        update set next_value = known.next_value + ${size}
      when not matched then
        insert (range_key, next_value, sealed)
        values (asked.range_key, ${initialOffset + size}, 0)
      output inserted.next_value into @reserved;
      select next_value, ${nonce} as nonce from @reserved;
    `);
    return nextValueOf(result, request);
  }

  override insertRangeIfAbsent({ table, key, nextValue, sealed }: RangeRow): Statement {
    return sql`
      insert into ${table} (range_key, next_value, sealed)
      select ${key}, ${nextValue}, ${sealed}
      where not exists (
        select 1 as found from ${table} with (updlock, holdlock, rowlock) where range_key = ${key}
      )
    `;
  }

  override readonly returnsSlots = true;

  override readonly shareRow: RowLock = { hint: sql` with (updlock, holdlock, rowlock)` };

  override updateSlot({ table, set, where, nonce }: SlotUpdate): Statement {
    const now = sql`@now`;
    return sql`
      declare @now bigint = ${this.nowMillis};
      declare @written table (
        slot integer not null, fence bigint not null, expires_at bigint not null,
        floor_ms bigint not null, ceiling_ms bigint not null
      );
      update ${table} with (updlock, rowlock)
      set ${set(now)}
      output inserted.slot, inserted.fence, inserted.expires_at, inserted.floor_ms,
        inserted.ceiling_ms
      into @written
      where ${where(now)};
      select slot, fence, expires_at, floor_ms, ceiling_ms, @now as now_ms, ${nonce} as nonce
      from @written;
    `;
  }

  override firstRows(count: number): Statement {
    return sql` offset 0 rows fetch next ${literal(count)} rows only`;
  }

  override async columns(session: Session, table: Identifier): Promise<readonly ColumnInfo[]> {
    const { rows } = await session.query(sql`
      select
        cast(name as nvarchar(128)) as name,
        cast(type_name(system_type_id) as nvarchar(128)) as type,
        coalesce(cast(collation_name as nvarchar(128)), N'') as collation,
        cast(max_length as bigint) as bytes
      from sys.columns
      where object_id = object_id(${quoted(table)})
    `);
    return rows.map((row) => {
      const [name, type, collation] = [row.text("name"), row.text("type"), row.text("collation")];
      const inexact = inexactness({ name, type, collation, bytes: row.number("bytes") });
      const unusable = bigintColumns.has(name) && type !== "bigint"
        ? `its type is ${type}, it must be bigint`
        : undefined;
      return { name, inexact, unusable };
    });
  }

  override async weaknesses(
    session: Session,
    { range, slot, namespace }: PresentTables,
  ): Promise<readonly string[]> {
    const { rows: [row] } = await session.query(sql`
      select
        cast(serverproperty('ProductVersion') as nvarchar(128)) as version,
        cast(serverproperty('EngineEdition') as bigint) as edition,
        cast(d.delayed_durability_desc as nvarchar(60)) as delayed_durability,
        cast(case when d.name = N'tempdb' then 1 else 0 end as bit) as temporary
      from sys.databases as d
      where d.name = db_name()
    `);
    if (row === undefined) return [];
    const lost = "committed writes, whose values are then handed out again";
    const found: string[] = [];
    if (row.text("delayed_durability") === "FORCED") {
      found.push(
        `DELAYED_DURABILITY of the database is FORCED: a crash can lose ${lost}. ` +
          `Set it to DISABLED or ALLOWED.`,
      );
    }
    if (row.boolean("temporary")) {
      found.push(`The database is tempdb: a restart loses ${lost}. Use another.`);
    }
    for (const table of [range, slot, namespace]) {
      if (table !== undefined) found.push(...await tableWeaknesses(session, table));
    }
    const major = Number.parseInt(row.text("version"));
    if (major < testedMajor && !azureEditions.has(row.number("edition"))) {
      found.push(
        `SQL Server ${row.text("version")} is older than those that are tested. ` +
          `Use 2019 (${testedMajor}.0) or later.`,
      );
    }
    return found;
  }

  override classify(error: unknown): StoreErrorKind {
    for (const one of failuresIn(error)) {
      const kind = numbers.get(Number(one.number)) ?? codes.get(String(one.code));
      // The driver keeps no number of a refused login, only words.
      if (one.code === "ELOGIN" && busy.test(String(one.message))) return "connection";
      if (kind !== undefined) return kind;
      // The pool's own error has no code.
      if (noConnection.test(String(one.message))) return "connection";
    }
    return "other";
  }
}

async function tableWeaknesses(session: Session, table: Identifier): Promise<string[]> {
  const { rows: [row] } = await session.query(sql`
    select
      cast(t.durability_desc as nvarchar(60)) as durability,
      coalesce((
        select cast(min(c.name) as nvarchar(128)) from sys.columns as c
        where c.object_id = t.object_id and c.name in (N'range_key', N'namespace')
          and type_name(c.system_type_id) in (N'varchar', N'char', N'text')
      ), N'') as narrow
    from sys.tables as t
    where t.object_id = object_id(${quoted(table)})
  `);
  const found: string[] = [];
  if (row === undefined) return found;
  if (row.text("durability") === "SCHEMA_ONLY") {
    found.push(
      `Table ${table} has DURABILITY = SCHEMA_ONLY: a restart loses committed writes, whose values ` +
        `are then handed out again. Make it SCHEMA_AND_DATA.`,
    );
  }
  const narrow = row.text("narrow");
  if (narrow !== "") {
    found.push(
      `Column ${narrow} of table ${table} is not nvarchar: texts travel as nvarchar, so each ` +
        `statement may read, and lock, the whole table. Make it nvarchar.`,
    );
  }
  return found;
}

/** SQL Database, SQL Managed Instance, SQL Edge, SQL database in Fabric. */
const azureEditions: ReadonlySet<number> = new Set([5, 8, 9, 12]);

interface Column {
  readonly name: string;
  readonly type: string;
  /** Empty if it holds no text. */
  readonly collation: string;
  /** How many it holds at most; -1 if there is no limit. */
  readonly bytes: number;
}

/** Why a column takes different texts for equal, or may cut them; undefined if it does neither. */
function inexactness({ name, type, collation, bytes }: Column): string | undefined {
  if (collation === "") return undefined;
  const bytesPerUnit = type.startsWith("n") ? 2 : 3;
  if (bytes >= 0 && bytes < longestTextIn(name) * bytesPerUnit) {
    return `it holds ${bytes} bytes, and longer texts are cut where ansi_warnings is off`;
  }
  if (!/_BIN2?(?:_UTF8)?$/i.test(collation)) return `its collation is ${collation}`;
  const unicode = type === "nvarchar" || type === "nchar" || /_UTF8$/i.test(collation);
  return unicode ? undefined : `its type ${type} does not hold every character`;
}

function quoted(table: Identifier): string {
  return table.parts.map(bracketed).join(".");
}

/** An error as far as it tells what happened. */
interface Failure {
  readonly number?: unknown;
  readonly code?: unknown;
  readonly message?: unknown;
  readonly precedingErrors?: unknown;
  readonly originalError?: unknown;
}

/** An error, then those that came before it and those that it stands for. */
function* failuresIn(error: unknown, depth = 0): Generator<Failure> {
  if (typeof error !== "object" || error === null || depth > 3) return;
  const failure: Failure = error;
  yield failure;
  const before = failure.precedingErrors;
  if (Array.isArray(before)) {
    for (const one of before.toReversed()) yield* failuresIn(one, depth + 1);
  }
  yield* failuresIn(failure.originalError, depth + 1);
}

const busy = /not currently available|currently busy|being recovered|is starting up|try again/i;
const noConnection = /^Failed to acquire a connection from the pool/;

/** By the server's number. */
const numbers: ReadonlyMap<number, StoreErrorKind> = new Map(
  (Object.entries({
    connection: [
      64, // the connection was cut while it was made
      121, // the network's semaphore timed out
      233, // no process is at the other end
      596, // the session was killed
      921, // the database has not been recovered yet
      922, // it is being recovered
      983, // the availability group is changing roles
      6005, // the server is shutting down
      9001, // the log is not available
      10053,
      10054,
      10060,
      10928, // Azure: a limit was reached
      10929,
      17142, // the server is paused
      40143, // Azure: the replica failed
      40197, // Azure: the service failed, or moved
      40501, // Azure: the service is busy
      40613, // Azure: the database is not available
      49918, // Azure: not enough resources
      49919,
      49920,
    ],
    deadlock: [1205],
    diskFull: [
      1101, // no new page
      1105, // the filegroup is full
      5149, // a file cannot grow
      9002, // the log is full
    ],
    duplicate: [
      1913, // an index of that name
      2601, // a row of a unique index
      2627, // a row of a unique constraint
      2705, // a column of that name
      2714, // an object of that name
    ],
    missingTable: [
      208,
      2760, // the schema
      4902,
    ],
    permission: [229, 230, 262, 297, 300, 916, 4060, 18452, 18456, 18470, 18486, 18487, 18488],
    readOnly: [
      976, // a secondary replica that takes no connections
      978, // one that takes only connections with read intent
      3906, // the database is read-only
      3908, // it is in emergency mode
    ],
    serialization: [
      1222, // the session's lock timeout
      3960, // snapshot isolation: somebody else's update came first
      3961, // snapshot isolation: the table was altered
      41301, // memory-optimised tables, as below
      41302,
      41305,
      41325,
    ],
  }) as [StoreErrorKind, number[]][])
    .flatMap(([kind, all]) => all.map((number) => [number, kind] as const)),
);

/** By the driver's code, for what the server did not send. */
const codes: ReadonlyMap<string, StoreErrorKind> = new Map(
  (Object.entries({
    connection: [
      ...socketFailures,
      "ECLOSE",
      "ECONNCLOSED",
      "EINSTLOOKUP",
      "EINVALIDSTATE",
      "ENOTOPEN",
      "ESOCKET",
      "ETIMEOUT",
    ],
    permission: ["EFEDAUTH", "ELOGIN"],
  }) as [StoreErrorKind, string[]][])
    .flatMap(([kind, all]) => all.map((code) => [code, kind] as const)),
);

/** The dialect of SQL Server, 2019 or later, and of Azure SQL; 2017 is not refused. */
export const sqlserverDialect: Dialect = new SqlserverDialect();
