/**
 * What the tests of all drivers over a network say about stores.
 *
 * @module
 */

import { assert, assertEquals, assertRejects } from "@std/assert";
import { RangeSealedError, type Store, StoreError, type StoreErrorKind } from "../../mod.ts";
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
  const first = 2n ** 53n + 1n;
  const { ranges } = store;
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
