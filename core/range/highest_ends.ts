/**
 * The highest end that this process has received for each key.
 *
 * A reserve that was sent after such an end was received must begin at or above it. One that does
 * not was answered from elsewhere, or the database has lost what it had committed.
 *
 * The memory is bounded: of more than 100,000 keys those used last are kept.
 *
 * @module
 */

const maxKeys = 100_000;

/** The highest end received for each key. */
export class HighestEnds {
  readonly #ends = new Map<string, bigint>();

  /** The highest end received for a key; undefined if there is none. */
  get(key: string): bigint | undefined {
    return this.#ends.get(key);
  }

  /** Notes that an end was received. */
  raise(key: string, end: bigint): void {
    const known = this.#ends.get(key);
    // Deleting first moves the key to the end of the map's order, so that its start is the key that
    // was used longest ago.
    this.#ends.delete(key);
    this.#ends.set(key, known === undefined || end > known ? end : known);
    if (this.#ends.size > maxKeys) {
      for (const oldest of this.#ends.keys()) {
        this.#ends.delete(oldest);
        break;
      }
    }
  }
}
