import { InvalidArgumentError } from "../../../core/errors.ts";
import type { RangeStore, ReserveOptions } from "../../../core/range/range_store.ts";
import { check, checkEqual, checkRejects } from "../check.ts";
import type { TckCase } from "../context.ts";
import { max, watched } from "./common.ts";

/** A value of any type, where the types of the library would not let it pass. */
function anything<T>(value: unknown): T {
  return value as T;
}

interface Refused {
  /** What is wrong. */
  readonly what: string;
  readonly call: (ranges: RangeStore) => Promise<unknown>;
  /** What the message must say: the value that was received, and a part of what is allowed. */
  readonly says: readonly string[];
}

const badKeys: readonly (readonly [string, unknown, readonly string[]])[] = [
  ["an empty key", "", ["1 to 255", '""']],
  ["a key of 256 units", "k".repeat(256), ["1 to 255", "256", "kkk"]],
  ["a key of 256 units beyond the basic plane", "😀".repeat(128), ["1 to 255", "256"]],
  ["a key with NUL", "a\0b", ["NUL", "\\u0000"]],
  ["a key with a lone surrogate", "a\ud83d", ["surrogate", "\\ud83d"]],
  ["a key that is a number", 7, ["string", "7"]],
  ["no key", undefined, ["string", "undefined"]],
  ["a key that is null", null, ["string", "null"]],
];

const badSizes: readonly (readonly [string, unknown, readonly string[]])[] = [
  ["size 0", 0, ["from 1 to", "received 0"]],
  ["size 0n", 0n, ["from 1 to", "received 0n"]],
  ["a negative size", -5, ["from 1 to", "received -5"]],
  ["a fraction", 1.5, ["safe integer", "received 1.5"]],
  ["an unsafe number", 2 ** 53, ["safe integer", "received 9007199254740992"]],
  ["a size beyond 2^63 - 1", max + 1n, ["from 1 to", `received ${max + 1n}n`]],
  ["a size of NaN", Number.NaN, ["safe integer", "received NaN"]],
  ["a size of Infinity", Number.POSITIVE_INFINITY, ["safe integer", "received Infinity"]],
  ["a size that is a string", "10", ["safe integer", 'received "10"']],
  ["no size", undefined, ["safe integer", "received undefined"]],
];

const badOptions: readonly (readonly [string, unknown, readonly string[]])[] = [
  ["an unknown option", { inititalOffset: 5 }, ["initialOffset", '"inititalOffset"']],
  ["a negative offset", { initialOffset: -1 }, ["initialOffset", "from 0", "received -1"]],
  ["an unsafe offset", { initialOffset: 2 ** 53 }, ["initialOffset", "received 9007199254740992"]],
  ["an offset that is a string", { initialOffset: "5" }, ["initialOffset", 'received "5"']],
  ["an offset that leaves no room", { initialOffset: max }, ["initialOffset", `${max}n`]],
  ["a timeout of 0", { timeoutMs: 0 }, ["timeoutMs", "from 1", "received 0"]],
  ["a timeout beyond a timer", { timeoutMs: 2 ** 31 }, ["timeoutMs", "received 2147483648"]],
  ["a timeout that is a string", { timeoutMs: "1s" }, ["timeoutMs", 'received "1s"']],
  ["a timeout of NaN", { timeoutMs: Number.NaN }, ["timeoutMs", "received NaN"]],
  ["a signal that is none", { signal: "stop" }, ["AbortSignal", 'received "stop"']],
  ["options that are a number", 5, ["object", "received 5"]],
  ["options that are null", null, ["object", "received null"]],
];

const refused: readonly Refused[] = [
  ...badKeys.flatMap(([what, key, says]) => [
    { what: `reserve: ${what}`, says, call: (r: RangeStore) => r.reserve(anything(key), 1) },
    { what: `seal: ${what}`, says, call: (r: RangeStore) => r.seal(anything(key)) },
    { what: `advance: ${what}`, says, call: (r: RangeStore) => r.advance(anything(key), 1) },
    { what: `read: ${what}`, says, call: (r: RangeStore) => r.read(anything(key)) },
  ]),
  ...badSizes.map(([what, size, says]) => ({
    what: `reserve: ${what}`,
    says,
    call: (ranges: RangeStore) => ranges.reserve("order", anything(size)),
  })),
  ...badOptions.map(([what, options, says]) => ({
    what: `reserve: ${what}`,
    says,
    call: (ranges: RangeStore) => ranges.reserve("order", 1, anything<ReserveOptions>(options)),
  })),
  {
    what: "reserve: a size that leaves no room above the default offset",
    says: ["initialOffset 1", `received ${max}n`],
    call: (ranges) => ranges.reserve("order", max),
  },
  {
    what: "advance: a negative value",
    says: ["from 0", "received -1"],
    call: (ranges) => ranges.advance("order", -1),
  },
  {
    what: "advance: a value beyond 2^63 - 1",
    says: ["from 0", `received ${max + 1n}n`],
    call: (ranges) => ranges.advance("order", max + 1n),
  },
  {
    what: "advance: an option of reserve",
    says: ["timeoutMs, signal", '"initialOffset"'],
    call: (ranges) => ranges.advance("order", 1, anything({ initialOffset: 1 })),
  },
  {
    what: "seal: an unknown option",
    says: ["timeoutMs, signal", '"force"'],
    call: (ranges) => ranges.seal("order", anything({ force: true })),
  },
  {
    what: "read: a timeout of 0",
    says: ["timeoutMs", "received 0"],
    call: (ranges) => ranges.read("order", { timeoutMs: 0 }),
  },
];

const badTables: readonly unknown[] = [
  'ran"ges',
  "ran'ges",
  "ran`ges",
  "ran ges",
  "ran-ges",
  "a.b.c",
  "",
  ".",
  "a.",
  ".b",
  "1a",
  "r;",
  "räume",
  "x".repeat(64),
  7,
  null,
];

const badStoreOptions: readonly (readonly [unknown, readonly string[]])[] = [
  [{ initschema: true }, ["initSchema", '"initschema"']],
  [{ initSchema: "yes" }, ["initSchema", "true or false", '"yes"']],
  [{ groupReserve: 1 }, ["groupReserve", "received 1"]],
  [{ fetchPlan: "batch" }, ["statement or transaction", '"batch"']],
  [{ timeoutMs: 0 }, ["timeoutMs", "received 0"]],
  [{ timeoutMs: -1 }, ["timeoutMs", "received -1"]],
  [{ signal: {} }, ["AbortSignal", "an object"]],
  [{ onEvent: "log" }, ["onEvent", '"log"']],
  [{ runtime: {} }, ["runtime", "an object"]],
  [{ dialect: "oracle" }, ["dialect", '"oracle"']],
  [{ dialect: {} }, ["dialect", "an object"]],
  [{ dialects: {} }, ["dialects", "an object"]],
  [{ dialects: ["mysql"] }, ["dialects", "an array"]],
];

/** What is refused before anything is sent. */
export const argumentCases: readonly TckCase[] = [
  {
    name:
      "bad arguments are refused before a round trip, with what, which value and what is allowed",
    async run(context) {
      const client = await watched(context);
      const { ranges } = await context.open({ client });
      client.sent.length = 0;
      for (const { what, call, says } of refused) {
        const error = await checkRejects(call(ranges), InvalidArgumentError);
        for (const part of ["Cannot", "received", ...says]) {
          check(error.message.includes(part), `${what}: "${error.message}" does not say ${part}`);
        }
      }
      checkEqual(client.names, [], "the statements");
    },
  },
  {
    name: "bad names of tables are refused before a round trip",
    async run(context) {
      const client = await watched(context);
      for (const rangeTable of badTables) {
        const opening = context.open({ client, rangeTable: anything(rangeTable) });
        const error = await checkRejects(opening, InvalidArgumentError);
        check(error.message.includes("rangeTable"), error.message);
        check(error.message.includes("received"), error.message);
      }
      checkEqual(client.names, [], "the statements");
    },
  },
  {
    name: "bad options of a store are refused before a round trip",
    async run(context) {
      const client = await watched(context);
      for (const [options, says] of badStoreOptions) {
        const bad = anything<Record<string, unknown>>(options);
        const error = await checkRejects(context.open({ client, ...bad }), InvalidArgumentError);
        for (const part of says) {
          check(error.message.includes(part), `"${error.message}" does not say ${part}`);
        }
      }
      checkEqual(client.names, [], "the statements");
    },
  },
];
