import { assertEquals } from "@std/assert";
import { mariadbDialect, mysqlDialect } from "../../dialects/mysql/mod.ts";
import type { StoreErrorKind } from "../../mod.ts";

/** Error numbers of the servers, and of what stands in between. */
const numbers: Readonly<Record<StoreErrorKind, readonly number[]>> = {
  connection: [1040, 1047, 1053, 1129, 1158, 1161, 1203, 1226, 1927, 3168, 3169, 4031, 2013, 9001],
  deadlock: [1213],
  diskFull: [1021, 1114],
  duplicate: [1022, 1050, 1060, 1061, 1062],
  missingTable: [1046, 1049, 1146],
  other: [1064, 1054, 1048, 1317, 1264, 1366, 1406, 1690, 1969, 3024, 1295, 1461, 3819, 4025],
  permission: [1044, 1045, 1130, 1142, 1143, 1227, 1370, 1698, 1820, 3118, 4151],
  readOnly: [1290, 1792, 1836, 1874, 3100],
  serialization: [1020, 1205, 1412, 1615, 3101, 3572],
};

const dialects = [mysqlDialect, mariadbDialect];

for (const [kind, list] of Object.entries(numbers)) {
  Deno.test(`the error numbers ${list.join(", ")} are of the kind ${kind}`, () => {
    for (const errno of list) {
      const error = Object.assign(new Error("what the server said"), { errno, code: "ER_SOME" });
      for (const dialect of dialects) assertEquals(dialect.classify(error), kind, String(errno));
    }
  });
}

for (
  const [errno, message, kind] of [
    [1030, 'Got error 28 "No space left on device" from storage engine InnoDB', "diskFull"],
    [1030, "Got error 168 - 'Unknown (generic) error from engine' from storage engine", "other"],
    [1026, "Error writing file 'x' (errno: 28 - No space left on device)", "diskFull"],
    [3, "Error writing file './binlog.000001' (Errcode: 28 - No space left on device)", "diskFull"],
    [1026, "Error writing file 'x' (errno: 5 - Input/output error)", "other"],
    [1064, "error 28 in your SQL syntax", "other"],
  ] as const
) {
  Deno.test(`the error ${errno} with "${message}" is of the kind ${kind}`, () => {
    const error = Object.assign(new Error(message), { errno, code: "ER_SOME" });
    for (const dialect of dialects) assertEquals(dialect.classify(error), kind);
  });
}

for (
  const code of [
    "ECONNREFUSED",
    "ECONNRESET",
    "ENOTFOUND",
    "EAI_AGAIN",
    "EPIPE",
    "ETIMEDOUT",
    "EHOSTUNREACH",
    "HANDSHAKE_SSL_ERROR",
    "PROTOCOL_CONNECTION_LOST",
    "PROTOCOL_SEQUENCE_TIMEOUT",
    "PROTOCOL_UNEXPECTED_PACKET",
  ]
) {
  Deno.test(`the driver's code ${code} is of the kind connection`, () => {
    // The operating system's numbers are negative, or a word.
    for (const errno of [-111, undefined, code]) {
      const error = Object.assign(new Error("failed"), { errno, code });
      for (const dialect of dialects) assertEquals(dialect.classify(error), "connection");
    }
  });
}

for (
  const [words, kind] of [
    ["Pool is closed.", "connection"],
    ["Queue limit reached.", "connection"],
    ["No connections available.", "connection"],
    ["Can't add new command when connection is in closed state", "connection"],
    ["Can't write in closed state", "connection"],
    ["something else", "other"],
  ] as const
) {
  Deno.test(`the driver's "${words}" is of the kind ${kind}`, () => {
    for (const dialect of dialects) assertEquals(dialect.classify(new Error(words)), kind);
  });
}

Deno.test("words of the server's are not taken for the driver's, nor anything for an error", () => {
  for (const dialect of dialects) {
    const error = Object.assign(new Error("Pool is closed."), { errno: 1064 });
    assertEquals(dialect.classify(error), "other");
    for (const value of [null, undefined, 5, "1213", {}, { errno: 1213 }, new Error("")]) {
      assertEquals(dialect.classify(value), "other");
    }
  }
});

Deno.test("only what the database rolled back may be repeated", () => {
  const kinds = Object.keys(numbers) as StoreErrorKind[];
  for (const dialect of dialects) {
    assertEquals(kinds.filter((kind) => dialect.isRetryable(kind)), ["deadlock", "serialization"]);
  }
});
