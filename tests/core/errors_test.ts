import { assert, assertEquals, assertInstanceOf, assertStrictEquals } from "@std/assert";
import * as errors from "../../core/errors.ts";
import { driverError } from "../../core/sql/database.ts";

const max = 9_223_372_036_854_775_807n;

const made: readonly [errors.FencepostError, errors.ErrorCode, string][] = [
  [new errors.InvalidArgumentError("Cannot do it"), "INVALID_ARGUMENT", "Cannot do it"],
  [new errors.ConfigurationError("Cannot do it"), "CONFIGURATION", "Cannot do it"],
  [
    new errors.DriverMissingError("postgres"),
    "DRIVER_MISSING",
    'Cannot open store: the driver is not installed, add the package: received "postgres"',
  ],
  [new errors.InTransactionError("Cannot do it"), "IN_TRANSACTION", "Cannot do it"],
  [
    new errors.SchemaError("Cannot do it", { table: "t", missingColumns: ["a"] }),
    "SCHEMA",
    "Cannot do it",
  ],
  [
    new errors.StoreError("Cannot do it", { kind: "other", statement: "s", cause: 1 }),
    "STORE",
    "Cannot do it",
  ],
  [new errors.StoreClosedError(), "STORE_CLOSED", "Cannot use store: it is closed"],
  [
    new errors.TimeoutError("run range.reserve", { timeoutMs: 5, outcome: "unknown" }),
    "TIMEOUT",
    "Cannot run range.reserve: not done in time, the outcome of the statement is unknown: " +
    "received 5 ms",
  ],
  [
    new errors.TimeoutError("run range.reserve", { timeoutMs: 5, outcome: "nothing" }),
    "TIMEOUT",
    "Cannot run range.reserve: not done in time, nothing was sent: received 5 ms",
  ],
  [
    new errors.RangeSealedError("reserve range", 'a"b'),
    "RANGE_SEALED",
    'Cannot reserve range: the key is sealed: received "a\\"b"',
  ],
  [
    new errors.RangeExhaustedError("order", { nextValue: max - 5n, size: 6n }),
    "RANGE_EXHAUSTED",
    'Cannot reserve range: key "order" has 5 values left: received size 6',
  ],
  [
    new errors.ReserveConflictError("order", { returned: 7n, lowest: 10n }),
    "RESERVE_CONFLICT",
    'Cannot reserve range: the answer for key "order" is not what the statement wrote, it is 3 ' +
    "behind the lowest value possible: received 7",
  ],
  [
    new errors.ReserveConflictError("order", { returned: undefined, lowest: 10n }),
    "RESERVE_CONFLICT",
    'Cannot reserve range: the answer for key "order" is not what the statement wrote, the key is ' +
    "neither sealed nor exhausted: a proxy lost it, or the connection is inside a transaction of " +
    "the application's: received no value",
  ],
];

Deno.test("every error has its stable code, its class's name and its message", () => {
  for (const [error, code, message] of made) {
    assertInstanceOf(error, errors.FencepostError);
    assertInstanceOf(error, Error);
    assertEquals([error.code, error.message, error.name], [code, message, error.constructor.name]);
    assert(error.stack?.includes(message));
  }
});

Deno.test("every class of errors that there is was looked at", () => {
  const classes = Object.values(errors).filter((value) => value !== errors.FencepostError);
  assertEquals(new Set(made.map(([error]) => error.constructor)), new Set<unknown>(classes));
});

Deno.test("an error carries what a handler needs", () => {
  const exhausted = new errors.RangeExhaustedError("order", { nextValue: 5n, size: 6n });
  assertEquals([exhausted.key, exhausted.nextValue, exhausted.size], ["order", 5n, 6n]);
  const conflict = new errors.ReserveConflictError("order", { returned: 7n, lowest: 10n });
  assertEquals([conflict.key, conflict.returned, conflict.behindBy], ["order", 7n, 3n]);
  const none = new errors.ReserveConflictError("order", { returned: undefined, lowest: 10n });
  assertEquals([none.returned, none.behindBy], [undefined, undefined]);
  const schema = new errors.SchemaError("", { table: "s.t", missingColumns: ["a", "b"] });
  assertEquals([schema.table, schema.missingColumns], ["s.t", ["a", "b"]]);
  const timeout = new errors.TimeoutError("", { timeoutMs: 5, outcome: "nothing" });
  assertEquals([timeout.timeoutMs, timeout.outcome], [5, "nothing"]);
  const cause = new Error("driver");
  const store = new errors.StoreError("", { kind: "deadlock", statement: "range.seal", cause });
  assertEquals([store.kind, store.statement], ["deadlock", "range.seal"]);
  assertStrictEquals(store.cause, cause);
  assertEquals(new errors.DriverMissingError("pg", { cause }).driver, "pg");
  assertStrictEquals(new errors.DriverMissingError("pg", { cause }).cause, cause);
  assertEquals(new errors.RangeSealedError("", "order").key, "order");
});

Deno.test("a driver's error keeps its own as the cause and shows nothing of it but its code", () => {
  const secret = "s3cr3t";
  const causes = [
    Object.assign(new Error(`password ${secret} of the key '${secret}'`), { code: "28P01" }),
    Object.assign(new Error(secret), { code: `no code but ${secret}` }),
    Object.assign(new Error(secret), { code: secret }),
    Object.assign(new Error(secret), { code: { toString: () => secret } }),
    new Error(secret),
    new TypeError(secret),
    secret,
    { message: secret },
    { code: 23505, detail: secret },
    null,
    undefined,
    5,
  ];
  for (const cause of causes) {
    for (const kind of ["other", "permission", "connection"] as const) {
      const error = driverError(kind, "range.reserve", cause);
      assertStrictEquals(error.cause, cause);
      assertEquals([error.kind, error.statement], [kind, "range.reserve"]);
      assert(error.message.startsWith("Cannot run range.reserve: "), error.message);
      assert(!error.message.includes(secret), error.message);
    }
  }
});

Deno.test("the code of a driver's error is shown, whether it is a text or a number", () => {
  const shown = (code: unknown) =>
    driverError("other", "range.reserve", Object.assign(new Error(""), { code })).message
      .split(": received ")[1];
  assertEquals([shown("23505"), shown("ECONNRESET"), shown(1213)], ["23505", "ECONNRESET", "1213"]);
});
