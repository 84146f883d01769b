/**
 * What the tests of all drivers over a network say about stores.
 *
 * @module
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  LeaseLostError,
  RangeSealedError,
  type Store,
  StoreError,
  type StoreErrorKind,
} from "../../mod.ts";
import { settles } from "./ranges.ts";

/** Expects a `StoreError` of a kind that says nothing that the driver said. */
export async function assertStoreError(
  call: () => Promise<unknown>,
  kind: StoreErrorKind,
): Promise<StoreError> {
  const error = await settles(assertRejects(call, StoreError), `an error of kind ${kind}`);
  assertEquals(error.kind, kind, `${error.message} ${String(error.cause)}`);
  const { cause } = error;
  if (cause instanceof Error && cause.message !== "") {
    assert(!error.message.includes(cause.message), "the driver's message is in the error's");
  }
  return error;
}

/** Fails unless a store, whatever its pool is set to, reads and writes exactly. */
export async function assertExact(store: Store, key = "exact"): Promise<void> {
  await assertExactRanges(store, key);
  await assertExactSlots(store);
}

/** Fails unless a store, whatever its pool is set to, reserves exactly. */
export async function assertExactRanges({ ranges }: Store, key = "exact"): Promise<void> {
  const first = 2n ** 53n + 1n;
  assertEquals(await ranges.reserve(key, 2, { initialOffset: first }), {
    start: first,
    end: first + 2n,
  });
  assertEquals(await ranges.advance(key, 2n ** 62n + 1n), 2n ** 62n + 1n);
  assertEquals(await ranges.advance(key, 1), 2n ** 62n + 1n);
  assertEquals(await ranges.reserve(key, 2n ** 61n + 1n), {
    start: 2n ** 62n + 1n,
    end: 2n ** 62n + 2n ** 61n + 2n,
  });
  await ranges.seal(key);
  assertEquals(await ranges.read(key), { nextValue: 2n ** 62n + 2n ** 61n + 2n, sealed: true });
  await assertRejects(() => ranges.reserve(key, 1), RangeSealedError);
  const text = `${key} 50% \\ \\' 'quoted' "too" \`also\` $1 ? :name größer 🦕 `;
  assertEquals(await ranges.reserve(text, 1), { start: 1n, end: 2n });
  assertEquals(await ranges.read(text), { nextValue: 2n, sealed: false });
  assertEquals(await ranges.read(text.trimEnd()), undefined);
}

/** Fails unless a store, whatever its pool is set to, leases slots exactly. */
export async function assertExactSlots({ slots, warnings }: Store): Promise<void> {
  // Only the library makes incarnations, of one length.
  assertEquals(warnings.filter((text) => text.includes("incarnation")), []);
  const namespace = `${crypto.randomUUID().slice(0, 8)} \\ \\' 'quoted' "too" ? größer 🦕`;
  const ownerKey = `50% \\ \\' 'quoted' "too" \`also\` $1 ? :name größer 🦕`;
  const terms = { namespace, limit: 20, ttlMs: 60_000, toleranceMs: 500, ownerKey };
  const stateOf = async (slot: number) => (await slots.inspect(namespace))?.slots[slot];

  const first = await slots.acquire(terms);
  const { slot } = first;
  assertEquals([first.fence, first.floorMs], [1, 0]);
  const acquired = await stateOf(slot);
  assert(acquired !== undefined);
  assertEquals(acquired, {
    slot,
    state: "held",
    ownerKey,
    lastOwnerKey: ownerKey,
    fence: 1,
    expiresAtMs: acquired.expiresAtMs,
    floorMs: 0,
    ceilingMs: acquired.ceilingMs,
    nextFloorMs: acquired.ceilingMs + 1,
  });
  assert(first.ceilingMs <= acquired.ceilingMs, "what is believed is beyond the row's ceiling");

  await slots.renew(first);
  const renewed = await stateOf(slot);
  assert(renewed !== undefined && renewed.expiresAtMs >= acquired.expiresAtMs);
  assert(renewed.ceilingMs >= acquired.ceilingMs && first.ceilingMs <= renewed.ceilingMs);
  assertEquals(renewed.nextFloorMs, renewed.ceilingMs + 1);

  await slots.release(first, { lastUsedMs: first.ceilingMs });
  const released = { ...renewed, state: "free", ownerKey: undefined } as const;
  assertEquals(await stateOf(slot), { ...released, nextFloorMs: first.ceilingMs + 1 });
  const second = await slots.acquire({ ...terms, maxAheadMs: 600_000 });
  assertEquals([second.slot, second.fence, second.floorMs], [slot, 2, first.ceilingMs + 1]);
  await assertRejects(() => slots.renew(first), LeaseLostError);
  await slots.release(second);
  await slots.release(second);
}
