/**
 * A set of ids that tells which came twice. Each id is looked at by its value, so a second one is
 * found whoever gave it and however many others lie between.
 *
 * Ids that lie close together take a bit each; ids anywhere else are as right, only larger. A page has
 * as many ids as a snowflake id's slot has in a millisecond, so that those leave little of one empty.
 *
 * @module
 */

const pageBits = 12;
const idsPerPage = 2 ** pageBits;
const pagesPerHigh = 2 ** (32 - pageBits);

/** A page whose ids share all but their lowest 12 bits. */
interface Page {
  readonly number: number;
  readonly bits: Uint32Array;
}

/** Unsigned ids of 64 bits. */
export class IdSet {
  readonly #pages = new Map<number, Page>();
  readonly #duplicates: bigint[] = [];
  #latest: Page = { number: -1, bits: new Uint32Array() };
  #size = 0;

  /** How many different ids were added. */
  get size(): number {
    return this.#size;
  }

  /** Each id that was there already when it was added, as often as that happened. */
  get duplicates(): readonly bigint[] {
    return this.#duplicates;
  }

  /** Adds an id in two halves, for numbers are several times as fast as bigints. */
  add(high: number, low: number): void {
    const number = high * pagesPerHigh + (low >>> pageBits);
    const { bits } = number === this.#latest.number ? this.#latest : this.#turnTo(number);
    const index = (low & (idsPerPage - 1)) >>> 5;
    const bit = 1 << (low & 31);
    const word = bits[index] ?? 0;
    if ((word & bit) !== 0) {
      this.#duplicates.push(BigInt(high) << 32n | BigInt(low >>> 0));
      return;
    }
    bits[index] = word | bit;
    this.#size++;
  }

  #turnTo(number: number): Page {
    let page = this.#pages.get(number);
    if (page === undefined) {
      page = { number, bits: new Uint32Array(idsPerPage / 32) };
      this.#pages.set(number, page);
    }
    return this.#latest = page;
  }
}
