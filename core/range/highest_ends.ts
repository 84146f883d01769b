/**
 * The highest end that this process has received for each key.
 *
 * A reserve that was sent after such an end was received must begin at or above it. One that does
 * not was answered from elsewhere, or the database has lost what it had committed.
 *
 * The memory is bounded: the keys used last are kept, at least 50,000 and at most 100,000.
 *
 * @module
 */

const maxYoung = 50_000;

/** The highest end received for each key. */
export class HighestEnds {
  /**
   * The keys used last, and those used before them. When the first are too many they take the place of
   * the second, so that no map is ever deleted from: what a map leaves behind when it is tidied up
   * would keep alive what it held until a full collection.
   */
  #young = new Map<string, bigint>();
  #old: ReadonlyMap<string, bigint> = new Map();

  /** The highest end received for a key; undefined if there is none. */
  get(key: string): bigint | undefined {
    return this.#young.get(key) ?? this.#old.get(key);
  }

  /** Notes that an end was received. */
  raise(key: string, end: bigint): void {
    const known = this.get(key);
    this.#young.set(key, known === undefined || end > known ? end : known);
    if (this.#young.size < maxYoung) return;
    this.#old = this.#young;
    this.#young = new Map();
  }
}
