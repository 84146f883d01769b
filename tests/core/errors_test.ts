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
  [
    new errors.NamespaceConflictError('wor"kers', {
      limit: 8,
      toleranceMs: 2_000,
      asked: { limit: 16, toleranceMs: 0 },
    }),
    "NAMESPACE_CONFLICT",
    'Cannot acquire slot: namespace "wor\\"kers" has the limit 8 and the toleranceMs 2000, which all ' +
    "its users must give: received limit 16 and toleranceMs 0",
  ],
  [
    new errors.SlotsExhaustedError("workers", { limit: 8, nowMs: 1_000, nextFreeMs: 1_500 }),
    "SLOTS_EXHAUSTED",
    'Cannot acquire slot: all 8 slots of namespace "workers" are held or not free yet; unless it is ' +
    "renewed the next comes free in 500 ms, at 1970-01-01T00:00:01.500Z by the database's clock: " +
    "received limit 8",
  ],
  ...(Object.entries({
    expired: "it could not be renewed in time",
    readOnly: "the server is read-only, a replica or a demoted primary",
    released: "it was released",
    replaced: "another holds the slot, or it was released",
  }) as [errors.LeaseLostReason, string][]).map((
    [reason, words],
  ): [errors.FencepostError, errors.ErrorCode, string] => [
    new errors.LeaseLostError("renew lease", { namespace: "workers", slot: 3, fence: 5, reason }),
    "LEASE_LOST",
    `Cannot renew lease: the lease is held no longer, ${words}: received slot 3 of namespace ` +
    '"workers" with fence 5',
  ]),
  [
    new errors.IdsExhaustedError(new Date(1_500)),
    "IDS_EXHAUSTED",
    "Cannot make id: the bits of the layout for the time have run out, at 1970-01-01T00:00:01.500Z, " +
    "use one with a later epoch or more of them, in a namespace and a column of its own: received a " +
    "later time",
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
  const terms = { limit: 8, toleranceMs: 5, asked: { limit: 9, toleranceMs: 6 } };
  const conflicting = new errors.NamespaceConflictError("workers", terms);
  const { namespace, limit, toleranceMs } = conflicting;
  assertEquals([namespace, limit, toleranceMs], ["workers", 8, 5]);
  const lost = { namespace: "workers", slot: 3, fence: 5, reason: "expired" } as const;
  const { slot, fence, reason, ...ended } = new errors.LeaseLostError("", lost);
  assertEquals({ namespace: ended.namespace, slot, fence, reason }, lost);
  const end = new Date(5);
  assertStrictEquals(new errors.IdsExhaustedError(end).exhaustedAt, end);
});

Deno.test("when a slot comes free is in the future, and a date, whatever the row says", () => {
  const at = (nextFreeMs: number) => {
    const { namespace, limit, freeInMs, nextFreeAt } = new errors.SlotsExhaustedError("workers", {
      limit: 8,
      nowMs: 1_000,
      nextFreeMs,
    });
    assertEquals([namespace, limit], ["workers", 8]);
    return [freeInMs, nextFreeAt.getTime()];
  };
  assertEquals(at(1_500), [500, 1_500]);
  assertEquals(at(1_000), [0, 1_000]);
  assertEquals(at(400), [0, 400]);
  assertEquals(at(Number.MAX_SAFE_INTEGER), [Number.MAX_SAFE_INTEGER - 1_000, 8.64e15]);
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
