/**
 * What can be known of SQL Server's dialect, its schema, its URLs and the types of its driver without
 * any server.
 *
 * @module
 */

// @ts-types="npm:@types/mssql@^12.3.0"
import mssql from "mssql";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { scriptText, sql } from "../../core/sql/statement.ts";
import { tablesOf } from "../../core/sql/tables.ts";
import { alone, counted } from "../../dialects/sqlserver/dialect.ts";
import {
  type MssqlPool,
  type MssqlRequest,
  type MssqlTransaction,
  openStore,
  sqlserverDialect,
} from "../../dialects/sqlserver/mod.ts";
import { configOf } from "../../dialects/sqlserver/url.ts";
import { InvalidArgumentError, openStore as openAny, type StoreErrorKind } from "../../mod.ts";
import { bracketed, sqlserverSchema } from "../../schema/sqlserver.ts";
import { allWords } from "../words.ts";

/** Compiles only if `Real` can be given where `Wanted` is taken. */
type Assignable<Wanted, Real extends Wanted> = Real extends Wanted ? true : never;

const accepted: readonly [
  Assignable<MssqlPool, mssql.ConnectionPool>,
  Assignable<MssqlRequest, mssql.Request>,
  Assignable<MssqlTransaction, mssql.Transaction>,
  Assignable<Parameters<typeof openStore>[0], mssql.ConnectionPool>,
] = [true, true, true, true];

Deno.test("the types of mssql's own objects are accepted", () => {
  assertEquals(accepted.every((yes) => yes), true);
  assertEquals(typeof mssql.ConnectionPool, "function");
});

/** The server's numbers, and the driver's codes for what no server said. */
const failures: Readonly<Record<StoreErrorKind, readonly (number | string)[]>> = {
  connection: [
    596,
    921,
    922,
    983,
    6005,
    9001,
    10053,
    10054,
    10928,
    10929,
    17142,
    40143,
    40197,
    40501,
    40613,
    49918,
    49919,
    49920,
    "EAI_AGAIN",
    "ECLOSE",
    "ECONNCLOSED",
    "ECONNREFUSED",
    "ECONNRESET",
    "EHOSTUNREACH",
    "EINSTLOOKUP",
    "ENOTFOUND",
    "ENOTOPEN",
    "EPIPE",
    "ESOCKET",
    "ETIMEOUT",
  ],
  deadlock: [1205],
  diskFull: [1101, 1105, 5149, 9002],
  duplicate: [1913, 2601, 2627, 2705, 2714],
  missingTable: [208, 2760, 4902],
  other: [102, 207, 515, 547, 2628, 8115, 50000, "EREQUEST", "ECANCEL", "EARGS", "nonsense", ""],
  permission: [229, 230, 262, 297, 916, 4060, 18452, 18456, 18470, 18486, "ELOGIN", "EFEDAUTH"],
  readOnly: [976, 978, 3906, 3908],
  serialization: [1222, 3960, 3961, 41301, 41302, 41305, 41325],
};

for (const [kind, all] of Object.entries(failures)) {
  for (const one of all) {
    Deno.test(`SQL Server's ${one || "(none)"} is of the kind ${kind}`, () => {
      const what = typeof one === "number" ? { number: one, code: "EREQUEST" } : { code: one };
      const error = Object.assign(new Error("what the server said"), what);
      assertEquals(sqlserverDialect.classify(error), kind);
    });
  }
}

Deno.test("an error that stands for others is of the kind of the one that is known", () => {
  const request = (number: number, more = {}) =>
    Object.assign(new Error("said"), { number, code: "EREQUEST", ...more });
  const classify = (error: unknown) => sqlserverDialect.classify(error);
  assertEquals(classify(request(1750, { precedingErrors: [request(2714)] })), "duplicate");
  assertEquals(
    classify(request(1750, { precedingErrors: [request(102), request(1205)] })),
    "deadlock",
  );
  const aborted = Object.assign(new Error("aborted"), {
    code: "EABORT",
    originalError: request(3960),
  });
  assertEquals(classify(aborted), "serialization");
  const circular: { originalError?: unknown } = {};
  circular.originalError = circular;
  assertEquals(classify(circular), "other");
});

for (
  const [words, more, kind] of [
    ["Login failed for user 'sa'.", { code: "ELOGIN" }, "permission"],
    ['Cannot open database "shop" requested by the login.', { code: "ELOGIN" }, "permission"],
    [
      "Database 'shop' on server 'x' is not currently available. Please retry the connection later.",
      { code: "ELOGIN" },
      "connection",
    ],
    ["The service is currently busy.", { code: "ELOGIN" }, "connection"],
    [
      "Failed to acquire a connection from the pool: operation timed out for an unknown reason",
      {},
      "connection",
    ],
    ["The service is currently busy.", { code: "EREQUEST", number: 50000 }, "other"],
    ["something else", {}, "other"],
  ] as const
) {
  Deno.test(`mssql's "${words}" with ${JSON.stringify(more)} is of the kind ${kind}`, () => {
    assertEquals(sqlserverDialect.classify(Object.assign(new Error(words), more)), kind);
  });
}

Deno.test("what is no error of mssql's is of the kind other", () => {
  for (const error of [null, undefined, 5, "1205", {}, new Error("")]) {
    assertEquals(sqlserverDialect.classify(error), "other");
  }
});

Deno.test("SQL Server has rolled back deadlocks and conflicts, and nothing else", () => {
  const kinds = Object.keys(failures) as StoreErrorKind[];
  const retryable = kinds.filter((kind) => sqlserverDialect.isRetryable(kind));
  assertEquals(retryable, ["deadlock", "serialization"]);
});

for (
  const [product, version, supported] of [
    ["Microsoft SQL Server", "17.0.1000.7", true],
    ["Microsoft SQL Server", "15.0.2000.5", true],
    ["Microsoft SQL Server", "14.0.1000.169", true],
    ["Microsoft SQL Server", "13.0.5026.0", false],
    ["Microsoft SQL Server", "", false],
    ["Microsoft SQL Azure", "12.0.2000.8", true],
    ["PostgreSQL", "17.1", false],
  ] as const
) {
  Deno.test(`${product} ${version} is ${supported ? "" : "not "}spoken to by sqlserver`, () => {
    assertEquals(sqlserverDialect.supports({ product, version }), supported);
  });
}

Deno.test("on sqlserver the names that were configured are used throughout", () => {
  const names = { rangeTable: "Shop.Order", slotTable: "Shop.Slot", namespaceTable: "Shop.Space" };
  const tables = tablesOf(names);
  const schemas = (["range", "slot"] as const)
    .flatMap((feature) => sqlserverSchema(feature, tables));
  assertEquals(schemas.map(({ table }) => table), [tables.range, tables.namespace, tables.slot]);
  for (const { table, create, columns } of schemas) {
    for (const statement of [create, ...columns.values()]) {
      const text = scriptText(statement, bracketed);
      assertEquals(text.split(`[Shop].[${table.name}]`).length, 3, text);
      assert(!text.includes("cosid_"), text);
    }
  }
});

Deno.test("on sqlserver the columns are those that Java services share, and a key fits its index", () => {
  const [range] = sqlserverSchema("range", tablesOf());
  assertEquals([...range?.columns.keys() ?? []], ["range_key", "next_value", "sealed"]);
  const text = range ? scriptText(range.create, bracketed).replaceAll(/\s+/g, " ") : "";
  for (
    const part of [
      "range_key nvarchar(255) collate Latin1_General_100_BIN2 not null primary key",
      "next_value bigint not null",
      "sealed bit not null default 0",
    ]
  ) assert(text.includes(part), `${part} is not in ${text}`);
  const bytes = Number(/nvarchar\((\d+)\)/.exec(text)?.[1]) * 2;
  assert(bytes <= 900, `${bytes} bytes`);
});

Deno.test("on sqlserver the columns of slots are what they are elsewhere, and their keys fit", () => {
  const [namespace, slot] = sqlserverSchema("slot", tablesOf());
  assertEquals([...namespace?.columns.keys() ?? []], ["namespace", "slot_limit", "tolerance_ms"]);
  assertEquals([...slot?.columns.keys() ?? []], [
    "namespace",
    "slot",
    "owner_key",
    "incarnation",
    "last_owner_key",
    "fence",
    "expires_at",
    "floor_ms",
    "ceiling_ms",
    "next_floor_ms",
  ]);
  const text = slot ? scriptText(slot.create, bracketed).replaceAll(/\s+/g, " ") : "";
  const binary = "collate Latin1_General_100_BIN2";
  for (
    const part of [
      `namespace nvarchar(100) ${binary} not null,`,
      "slot integer not null,",
      // A session may take a column for not null that does not say what it is.
      `owner_key nvarchar(255) ${binary} null,`,
      `incarnation nchar(36) ${binary} null,`,
      `last_owner_key nvarchar(255) ${binary} null,`,
      ...["fence", "expires_at", "floor_ms", "ceiling_ms", "next_floor_ms"]
        .map((name) => `${name} bigint not null default 0,`),
      "primary key (namespace, slot)",
    ]
  ) assert(text.includes(part), `${part} is not in ${text}`);
  const bytes = Number(/nvarchar\((\d+)\)/.exec(text)?.[1]) * 2 + 4;
  assert(bytes <= 900, `${bytes} bytes`);
});

Deno.test("only a statement that changes rows and returns none is counted", () => {
  const count = (statement: ReturnType<typeof sql>) =>
    scriptText(counted(statement), bracketed).includes("@@rowcount");
  assertEquals(count(sql`update t set a = 1`), true);
  assertEquals(count(sql`\n  INSERT into t (a) values (1)`), true);
  assertEquals(count(sql`delete from t`), true);
  assertEquals(count(sql`select a from t`), false);
  assertEquals(count(sql`declare @t table (a bigint); merge t using u on 1 = 0 output 1;`), false);
  assertEquals(count(sql`if object_id(N't') is null create table t (a bigint)`), false);
});

Deno.test("a statement that runs alone stands behind the look whether it does", () => {
  const text = scriptText(alone(sql`update t set a = 1`), bracketed);
  assert(
    /^if @@trancount > 0 or \(@@options & 2\) = 2\nbegin\n.*\n\s+return;\nend;\nupdate/.test(text),
  );
});

const plain = { validateConnection: "socket", pool: { max: 10 } } as const;
const defaults = { encrypt: true, trustServerCertificate: false };

Deno.test("a URL says how to connect", () => {
  const read = (url: string) => JSON.parse(JSON.stringify(configOf(url, {})));
  assertEquals(read("sqlserver://localhost"), { server: "localhost", options: defaults, ...plain });
  assertEquals(read("MSSQL://u%40d:p%2F%3F@db.example:1444/my%20shop"), {
    server: "db.example",
    port: 1444,
    user: "u@d",
    password: "p/?",
    database: "my shop",
    options: defaults,
    ...plain,
  });
  assertEquals(
    read("sqlserver://[::1]/shop?encrypt=false&trustServerCertificate=true&appName=a%20b&max=3"),
    {
      server: "::1",
      database: "shop",
      options: { encrypt: false, trustServerCertificate: true, appName: "a b" },
      validateConnection: "socket",
      pool: { max: 3 },
    },
  );
  assertEquals(read("sqlserver://h/?encrypt=strict&instanceName=SQLEXPRESS").options, {
    encrypt: "strict",
    trustServerCertificate: false,
    instanceName: "SQLEXPRESS",
  });
});

Deno.test("a user and a password that are options go before those in the URL", () => {
  const { user, password } = configOf("sqlserver://a:b@h", { username: "c", password: "%d" });
  assertEquals([user, password], ["c", "%d"]);
});

const secret = "s3cr3t";
const wrongUrls = [
  `sqlserver://u:${secret}@host:notaport/db`,
  `sqlserver://u:${secret}@host:99999999/db`,
  `sqlserver://u:${secret}%@host/db`,
  `sqlserver://u%:${secret}@host/db`,
  `sqlserver://u:p@host/${secret}%`,
  `sqlserver://u:${secret}@[::1/db`,
  `sqlserver://u:${secret}@`,
  `sqlserver://`,
  `sqlserver:u:${secret}@host`,
  `sqlserver://host;user=u;password=${secret}`,
  `sqlserver://host/db?password=${secret}`,
  `sqlserver://host/db?${secret}`,
  `sqlserver://host/db?encrypt=${secret}`,
  `sqlserver://host/db?encrypt=true&encrypt=${secret}`,
  `sqlserver://host/db?trustServerCertificate=${secret}`,
  `sqlserver://host/db?max=${secret}`,
  `sqlserver://host/db?max=0`,
  `sqlserver://u:${secret}@host:1433/db?instanceName=x`,
  `Server=host;User Id=u;Password=${secret}`,
  `postgres://u:${secret}@host/db`,
  `u:${secret}@host`,
];

for (const url of wrongUrls) {
  Deno.test(`the URL ${url} is refused, and nothing of it shown`, async () => {
    const error = await assertRejects(() => openStore(url), InvalidArgumentError);
    assert(!allWords(error).includes(secret), error.message);
    assertThrows(() => configOf(url, {}), InvalidArgumentError);
  });
}

Deno.test("options are checked before anything is opened, also for SQL Server", async () => {
  const url = "sqlserver://127.0.0.1:1/db";
  const open = openAny as (target: unknown, options: unknown) => Promise<unknown>;
  for (
    const options of [
      { timeoutMs: 0 },
      { rangeTable: "a b" },
      { unknown: 1 },
      { username: 5 },
      { password: 5 },
      { prepare: true },
      { exclusive: true },
      null,
    ]
  ) await assertRejects(() => open(url, options), InvalidArgumentError, "Cannot ");
  for (const option of ["username", "password"]) {
    const call = openStore as (target: unknown, options: unknown) => Promise<unknown>;
    const error = await assertRejects(() => call({}, { [option]: secret }), Error, option);
    assert(!allWords(error).includes(secret));
  }
});
