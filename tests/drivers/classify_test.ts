import { assertEquals } from "@std/assert";
import { postgresqlDialect } from "../../dialects/postgresql/mod.ts";
import { sqliteDialect } from "../../dialects/sqlite/mod.ts";
import type { StoreErrorKind } from "../../mod.ts";

/** SQLSTATEs, and codes of the drivers and of the platform's sockets. */
const postgresqlCodes: Readonly<Record<StoreErrorKind, readonly string[]>> = {
  connection: [
    "08000",
    "08003",
    "08006",
    "08P01",
    "53300",
    "57P01",
    "57P02",
    "57P03",
    "57P05",
    "25P03",
    "25P04",
    "CONNECTION_CLOSED",
    "CONNECTION_DESTROYED",
    "CONNECTION_ENDED",
    "CONNECT_TIMEOUT",
    "ECONNREFUSED",
    "ECONNRESET",
    "EHOSTUNREACH",
    "ENETUNREACH",
    "ENOTFOUND",
    "EAI_AGAIN",
    "EPIPE",
    "ETIMEDOUT",
  ],
  deadlock: ["40P01"],
  diskFull: ["53100"],
  duplicate: ["23505", "42710", "42P06", "42P07", "42701"],
  missingTable: ["42P01", "3F000"],
  other: ["22003", "23502", "23514", "42601", "57014", "XX000", "25P02", "", "nonsense"],
  permission: ["28000", "28P01", "42501"],
  readOnly: ["25006"],
  serialization: ["40001"],
};

for (const [kind, codes] of Object.entries(postgresqlCodes)) {
  for (const code of codes) {
    Deno.test(`PostgreSQL's code ${code || "(none)"} is of the kind ${kind}`, () => {
      const error = Object.assign(new Error("what the server said"), { code });
      assertEquals(postgresqlDialect.classify(error), kind);
    });
  }
}

for (
  const [words, kind] of [
    ["Connection terminated unexpectedly", "connection"],
    ["Connection terminated", "connection"],
    ["Client has encountered a connection error and is not queryable", "connection"],
    ["timeout exceeded when trying to connect", "connection"],
    ["Client was closed and is not queryable", "connection"],
    ["Query read timeout", "connection"],
    ["Cannot use a pool after calling end on the pool", "other"],
    ["something else", "other"],
  ] as const
) {
  Deno.test(`pg's "${words}" is of the kind ${kind}`, () => {
    assertEquals(postgresqlDialect.classify(new Error(words)), kind);
  });
}

Deno.test("words of the server's are not taken for a failed connection", () => {
  const error = Object.assign(new Error("cannot connect the dots"), { code: "42601" });
  assertEquals(postgresqlDialect.classify(error), "other");
});

for (
  const [code, kind] of [
    [1, "other"],
    [3, "permission"],
    [5, "serialization"],
    [6, "serialization"],
    [8, "readOnly"],
    [10, "connection"],
    [13, "diskFull"],
    [14, "connection"],
    [19, "other"],
    [23, "permission"],
    [261, "serialization"],
    [262, "serialization"],
    [517, "serialization"],
    [1032, "readOnly"],
    [1544, "readOnly"],
    [778, "connection"],
    [1555, "duplicate"],
    [2067, "duplicate"],
    [275, "other"],
  ] as const
) {
  Deno.test(`SQLite's result code ${code} is of the kind ${kind}`, () => {
    const error = Object.assign(new Error("what SQLite said"), { errcode: code });
    assertEquals(sqliteDialect.classify(error), kind);
  });
}

for (
  const [words, kind] of [
    ["no such table: main.t", "missingTable"],
    ["unknown database shop", "missingTable"],
    ["table t already exists", "duplicate"],
    ["duplicate column name: sealed", "duplicate"],
    ['near "x": syntax error', "other"],
  ] as const
) {
  Deno.test(`SQLite's "${words}" is of the kind ${kind}`, () => {
    assertEquals(sqliteDialect.classify(Object.assign(new Error(words), { errcode: 1 })), kind);
  });
}

Deno.test("what is no error of the driver's is of the kind other", () => {
  for (const dialect of [postgresqlDialect, sqliteDialect]) {
    for (const error of [null, undefined, 5, "40001", {}, new Error("")]) {
      assertEquals(dialect.classify(error), "other");
    }
  }
});

Deno.test("only what the database rolled back may be repeated", () => {
  for (const dialect of [postgresqlDialect, sqliteDialect]) {
    const kinds = Object.keys(postgresqlCodes) as StoreErrorKind[];
    assertEquals(kinds.filter((kind) => dialect.isRetryable(kind)), ["deadlock", "serialization"]);
  }
});
