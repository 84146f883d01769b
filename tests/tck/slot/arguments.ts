import { InvalidArgumentError } from "../../../core/errors.ts";
import type { SlotLease } from "../../../core/slot/slot_lease.ts";
import type { SlotStore } from "../../../core/slot/slot_store.ts";
import { check, checkEqual, checkRejects } from "../check.ts";
import type { TckCase } from "../context.ts";
import { namespace, Rig, terms } from "./common.ts";

/** A value of any type, where the types of the library would not let it pass. */
function anything<T>(value: unknown): T {
  return value as T;
}

type Says = readonly string[];

/** What is wrong with a value, the value, and what the message must say. */
type Bad = readonly [what: string, value: unknown, says: Says];

interface Refused {
  readonly what: string;
  readonly call: (slots: SlotStore, lease: SlotLease) => Promise<unknown>;
  readonly says: Says;
}

const badNamespaces: readonly Bad[] = [
  ["an empty one", "", ["1 to 100", '""']],
  ["101 units", "n".repeat(101), ["1 to 100", "101", "nnn"]],
  ["102 units beyond the basic plane", "😀".repeat(51), ["1 to 100", "102"]],
  ["NUL", "a\0b", ["NUL", "\\u0000"]],
  ["a lone surrogate", "a\ud83d", ["surrogate", "\\ud83d"]],
  ["a number", 7, ["string", "received 7"]],
  ["none", undefined, ["string", "received undefined"]],
  ["null", null, ["string", "received null"]],
];

const badOwners: readonly Bad[] = [
  ["an empty one", "", ["ownerKey", "1 to 255", '""']],
  ["256 units", "k".repeat(256), ["ownerKey", "1 to 255", "256"]],
  ["NUL", "a\0b", ["ownerKey", "NUL"]],
  ["a lone surrogate", "\udc00", ["ownerKey", "surrogate"]],
  ["a number", 7, ["ownerKey", "string", "received 7"]],
  ["null", null, ["ownerKey", "string", "received null"]],
];

/** Values that are no integer from `least` to `most`. */
function badIntegers(name: string, least: number, most: number): readonly Bad[] {
  const bounds = `from ${least} to ${most}`;
  return [
    [`${name} below`, least - 1, [name, bounds, `received ${least - 1}`]],
    [`${name} above`, most + 1, [name, bounds, `received ${most + 1}`]],
    [`${name} above, as a bigint`, BigInt(most) + 1n, [name, bounds, `received ${most + 1}n`]],
    [`${name} a fraction`, 1.5, [name, "an integer from", "received 1.5"]],
    [`${name} NaN`, Number.NaN, [name, "an integer from", "received NaN"]],
    [`${name} infinite`, Number.POSITIVE_INFINITY, [name, "received Infinity"]],
    [`${name} unsafe`, 2 ** 53, [name, "an integer from", "received 9007199254740992"]],
    [`${name} a string`, "8", [name, "an integer from", 'received "8"']],
    [`${name} null`, null, [name, "an integer from", "received null"]],
    [`${name} true`, true, [name, "an integer from", "received true"]],
  ];
}

/** What is wrong with the options of an acquire, beside a namespace or an owner. */
const badOptions: readonly Bad[] = [
  ...named("limit", badIntegers("limit", 1, 65_536)),
  ["no limit", { limit: undefined }, ["limit", "an integer from", "received undefined"]],
  ...named("ttlMs", badIntegers("ttlMs", 1_000, 86_400_000)),
  ...named("maxAheadMs", badIntegers("maxAheadMs", 0, 172_800_000)),
  ...named("toleranceMs", badIntegers("toleranceMs", 0, 29_999)),
  ["a tolerance as long as the ttl", { toleranceMs: 30_000 }, ["below the ttlMs of 30000"]],
  ["the usual tolerance with a ttl as long", { ttlMs: 2_000, toleranceMs: undefined }, [
    "toleranceMs",
    "below the ttlMs of 2000",
    "received 2000",
  ]],
  ...named("preferredSlot", badIntegers("preferredSlot", 0, 3)),
  ["an unknown option", { ttl: 30_000 }, ["ttlMs", 'received "ttl"']],
  ["an incarnation", { incarnation: crypto.randomUUID() }, ['received "incarnation"']],
  ["an option of hold", { background: false }, ['received "background"']],
  ["a timeout of 0", { timeoutMs: 0 }, ["timeoutMs", "from 1", "received 0"]],
  ["a signal that is none", { signal: "stop" }, ["AbortSignal", 'received "stop"']],
];

function named(name: string, bad: readonly Bad[]): readonly Bad[] {
  return bad.map(([what, value, says]) => [what, { [name]: value }, says]);
}

const noOptions: readonly Bad[] = [
  ["options that are a number", 5, ["object", "received 5"]],
  ["options that are null", null, ["object", "received null"]],
];

/** Fields of a lease that cannot be those of one. */
const badFields: readonly Bad[] = [
  ...badNamespaces.map(([what, value, says]): Bad => [
    `namespace: ${what}`,
    { namespace: value },
    ["namespace", ...says],
  ]),
  ...badOwners.map(([what, value, says]): Bad => [`owner: ${what}`, { ownerKey: value }, says]),
  ...named("slot", badIntegers("slot", 0, 65_535)),
  ...named("fence", [
    ["fence 0", 0, ["fence", "from 1", "received 0"]],
    ["a fence that is a string", "1", ["fence", "an integer from", 'received "1"']],
    ["an unsafe fence", 2 ** 53, ["fence", "received 9007199254740992"]],
    ["no fence", undefined, ["fence", "received undefined"]],
  ]),
  ...named("incarnation", [
    ["an empty incarnation", "", ["incarnation", "1 to 36"]],
    ["a long incarnation", "i".repeat(37), ["incarnation", "1 to 36", "37"]],
    ["an incarnation that is null", null, ["incarnation", "string"]],
  ]),
  ...named("ttlMs", badIntegers("ttlMs", 1_000, 86_400_000)),
  ["a tolerance as long as the ttl", { toleranceMs: 30_000 }, ["toleranceMs", "received 30000"]],
  ["a negative floor", { floorMs: -1 }, ["floorMs", "received -1"]],
  ["a floor that is a string", { floorMs: "0" }, ["floorMs", 'received "0"']],
  ["a ceiling below the floor", { floorMs: 10, ceilingMs: 9 }, ["ceilingMs", "from 10"]],
  ["a ceiling of NaN", { ceilingMs: Number.NaN }, ["ceilingMs", "received NaN"]],
  ["a ceiling beyond all dates", { ceilingMs: 8.64e15 + 1 }, ["ceilingMs", "8640000000000001"]],
];

const noLeases: readonly Bad[] = [
  ["no lease", undefined, ["SlotLease", "received undefined"]],
  ["null", null, ["SlotLease", "received null"]],
  ["a slot", 3, ["SlotLease", "received 3"]],
  ["a text", "lease", ["SlotLease", 'received "lease"']],
];

/** Every call that takes a lease. */
const users: Readonly<Record<string, (slots: SlotStore, lease: SlotLease) => Promise<unknown>>> = {
  renew: (slots, lease) => slots.renew(lease),
  release: (slots, lease) => slots.release(lease),
  assertHeld: (slots, lease) => slots.assertHeld(lease, {}),
};

const refused: readonly Refused[] = [
  ...badNamespaces.flatMap(([what, value, says]): Refused[] => [
    {
      what: `acquire, namespace: ${what}`,
      says: ["namespace", ...says],
      call: (slots) => slots.acquire(terms({ namespace: anything(value) })),
    },
    {
      what: `inspect: ${what}`,
      says: ["namespace", ...says],
      call: (slots) => slots.inspect(anything(value)),
    },
  ]),
  ...badOwners.map(([what, ownerKey, says]): Refused => ({
    what: `acquire, ownerKey: ${what}`,
    says,
    call: (slots) => slots.acquire(terms({ ownerKey: anything(ownerKey) })),
  })),
  ...badOptions.map(([what, options, says]): Refused => ({
    what: `acquire: ${what}`,
    says,
    call: (slots) => slots.acquire(terms(anything(options))),
  })),
  ...noOptions.flatMap(([what, options, says]): Refused[] => [
    { what: `acquire: ${what}`, says, call: (slots) => slots.acquire(anything(options)) },
    {
      what: `renew: ${what}`,
      says,
      call: (slots, lease) => slots.renew(lease, anything(options)),
    },
    {
      what: `release: ${what}`,
      says,
      call: (slots, lease) => slots.release(lease, anything(options)),
    },
    { what: `inspect: ${what}`, says, call: (slots) => slots.inspect("n", anything(options)) },
  ]),
  ...Object.entries(users).flatMap(([name, call]): Refused[] => [
    ...noLeases.map(([what, value, says]): Refused => ({
      what: `${name}: ${what}`,
      says,
      call: (slots) => call(slots, anything(value)),
    })),
    ...badFields.map(([what, fields, says]): Refused => ({
      what: `${name}: ${what}`,
      says,
      call: (slots, lease) =>
        call(slots, anything({ ...lease.toJSON(), ...anything<object>(fields) })),
    })),
  ]),
  {
    what: "release: something stamped before the window",
    says: ["lastUsedMs", "received "],
    call: (slots, lease) => slots.release(lease, { lastUsedMs: lease.floorMs - 2 }),
  },
  {
    what: "release: something stamped behind the window",
    says: ["lastUsedMs", "window"],
    call: (slots, lease) => slots.release(lease, { lastUsedMs: lease.ceilingMs + 1 }),
  },
  {
    what: "release: something stamped that is no time",
    says: ["lastUsedMs", "received NaN"],
    call: (slots, lease) => slots.release(lease, { lastUsedMs: Number.NaN }),
  },
  {
    what: "release: an unknown option",
    says: ["lastUsedMs", '"lastUsed"'],
    call: (slots, lease) => slots.release(lease, anything({ lastUsed: 5 })),
  },
  {
    what: "renew: an option of release",
    says: ["timeoutMs, signal", '"lastUsedMs"'],
    call: (slots, lease) => slots.renew(lease, anything({ lastUsedMs: 5 })),
  },
  {
    what: "inspect: a timeout of 0",
    says: ["timeoutMs", "received 0"],
    call: (slots) => slots.inspect("n", { timeoutMs: 0 }),
  },
];

/** What is refused before anything is sent. */
export const slotArgumentCases: readonly TckCase[] = [
  {
    name:
      "bad arguments of slots are refused before a round trip, with what, which value and what is allowed",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms());
      const row = await rig.row(lease);
      rig.client.sent.length = 0;
      for (const { what, call, says } of refused) {
        const error = await checkRejects(call(rig.slots, lease), InvalidArgumentError);
        for (const part of ["Cannot", "received", ...says]) {
          check(error.message.includes(part), `${what}: "${error.message}" does not say ${part}`);
        }
      }
      checkEqual(rig.client.names, [], "the statements");
      checkEqual(await rig.row(lease), row, "the row");
      await rig.slots.renew(lease);
    },
  },
  {
    name: "the least and the most of every argument of slots are taken",
    async run(context) {
      const rig = await Rig.open(context);
      const taken = [
        terms({ ttlMs: 1_000, toleranceMs: 0, maxAheadMs: 0, limit: 1, preferredSlot: 0 }),
        terms({ ttlMs: 1_000, toleranceMs: 999 }),
        terms({ ttlMs: 86_400_000, toleranceMs: 86_399_999, maxAheadMs: 172_800_000 }),
        terms({ ownerKey: "k".repeat(255), preferredSlot: 3 }),
        terms({ ownerKey: "字".repeat(255) }),
      ];
      for (const [index, options] of taken.entries()) {
        const lease = await rig.slots.acquire({ ...options, namespace: `${namespace} ${index}` });
        const row = await rig.checkBelieved(lease);
        checkEqual(row.expiresAtMs, rig.clock.storeMs + (options.ttlMs ?? 0));
        await rig.slots.renew(lease);
        await rig.checkBelieved(lease);
        await rig.slots.release(lease, { lastUsedMs: lease.ceilingMs });
      }
    },
  },
];
