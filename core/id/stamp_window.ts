/**
 * What a holder may stamp, and what it has stamped already.
 *
 * It belongs to the lease, not to a generator: two generators of one lease share it, so what one has
 * stamped the other does not stamp again. It is never copied, and once it is closed it stays closed.
 *
 * @module
 */

import type { SnowflakeLayout } from "./snowflake_layout.ts";

/** The milliseconds that a holder may stamp, and the last unit and sequence that it has stamped. */
export class StampWindow {
  /** The first millisecond. */
  readonly floorMs: number;
  /** The layout of the ids, once there is a generator. */
  layout: SnowflakeLayout | undefined;
  /** The last unit of time that was stamped, counted from the epoch; -1 before the first. */
  unit = -1;
  /** The last sequence number that was stamped in it. */
  sequence = 0;
  #ceilingMs: number;
  #closed = false;

  /**
   * Makes one.
   *
   * @param floorMs The first millisecond.
   * @param ceilingMs The last millisecond.
   */
  constructor(floorMs: number, ceilingMs: number) {
    this.floorMs = floorMs;
    this.#ceilingMs = ceilingMs;
  }

  /** The last millisecond, as far as the holder knows. */
  get ceilingMs(): number {
    return this.#ceilingMs;
  }

  /** Whether nothing is stamped any longer. */
  get closed(): boolean {
    return this.#closed;
  }

  /** The last millisecond that an id has used, or the one before the window. Needs the layout. */
  get lastUsedMs(): number {
    const { layout, unit } = this;
    if (layout === undefined || unit < 0) return this.floorMs - 1;
    return layout.epochMs + (unit + 1) * layout.unitMs - 1;
  }

  /** Raises the last millisecond; never lowers it. */
  raise(ceilingMs: number): void {
    if (ceilingMs > this.#ceilingMs) this.#ceilingMs = ceilingMs;
  }

  /** Ends all stamping, for good. */
  close(): void {
    this.#closed = true;
  }
}
