/**
 * What must be true in every schedule, checked against what the statements did to the rows and what the
 * processes believe.
 *
 * @module
 */

import type { SlotRow } from "./database.ts";

/** The rules, each by a short name. */
export const rules = {
  ids: "no id is made twice, and each lies within the window that the row gave its holder",
  windows: "the windows of a slot do not overlap, and rise from each fence to the next",
  fence:
    "an acquire raises the fence by one, nothing else does, and who was replaced changes no row",
  ceiling: "a holder believes no ceiling above the row's",
  trust: "trust is never counted from the answer",
  held: "no two trust one slot while the clocks run true",
  choice: "a slot that can be taken is found",
  order: "the ids of a generator rise",
  errors: "nothing fails but as it is documented",
} as const;

/** The name of a rule. */
export type Rule = keyof typeof rules;

/** A rule that was broken. */
export class Violation extends Error {
  /** The rule. */
  readonly rule: Rule;
  /** How many commands had been given by then. */
  steps = Infinity;

  /**
   * Makes one.
   *
   * @param rule The rule.
   * @param what What happened.
   */
  constructor(rule: Rule, what: string) {
    super(`${rules[rule]}: ${what}`);
    this.name = "Violation";
    this.rule = rule;
  }
}

/** What the model knows of one fence of a slot. */
interface Window {
  readonly fence: number;
  readonly floorMs: number;
  /** The highest ceiling that the row has had for it. */
  ceilingMs: number;
  /** The last millisecond that the next window leaves to it, once it was released. */
  endMs: number;
  /** The last millisecond that was stamped under it. */
  usedMs: number;
}

/** A statement, as far as the rules ask about it. */
export interface Statement {
  /** Its name, such as "slot.renew". */
  readonly name: string;
  /** The incarnation that it bound; undefined if none. */
  readonly incarnation: string | undefined;
  /** The store clock that it used. */
  readonly nowMs: number;
}

/** The lease that came of an incarnation; -1 as long as there is none. */
export interface Tenancy {
  slot: number;
  fence: number;
  /** Whether its holder is there and has not lost it, as far as it knows. */
  isLive: () => boolean;
}

/** Checks the rules of one schedule. */
export class Rules {
  /** The first rule that was broken; what the library catches must not hide it. */
  violation: Violation | undefined;
  readonly #only: readonly Rule[] | undefined;
  readonly #windows = new Map<number, Window[]>();
  readonly #ids = new Set<number>();
  /** The leases by their incarnations. */
  readonly tenancies = new Map<string, Tenancy>();

  /** @param only The rules that count; all do unless given. */
  constructor(only?: readonly Rule[]) {
    this.#only = only;
  }

  /** How many ids were made. */
  get ids(): number {
    return this.#ids.size;
  }

  /** Says that a rule is broken. */
  broken(rule: Rule, what: { toString(): string }): void {
    if (this.#only?.includes(rule) === false) return;
    this.violation ??= new Violation(rule, what.toString());
  }

  /** Looks at what a statement did to the rows. */
  written(
    { name, incarnation, nowMs }: Statement,
    { before, after }: { before: readonly SlotRow[]; after: readonly SlotRow[] },
  ): void {
    if (name === "slot.provision" || name === "slot.namespace") {
      return this.#provisioned(before, after);
    }
    let changed = 0;
    after.forEach((row, index) => {
      const old = before[index];
      if (old === undefined || old.slot !== row.slot) {
        return this.broken("fence", `${name} inserted a row`);
      }
      if (isSame(old, row)) return;
      changed++;
      const tenancy = this.tenancies.get(incarnation ?? "");
      const what = { toString: () => `${name} made ${show(old)} ${show(row)}` };
      if (tenancy === undefined) this.broken("fence", `${what}, and is nobody's`);
      else if (name === "slot.acquire") this.#acquired(old, row, { nowMs, what });
      else this.#changed(old, row, { tenancy, name, incarnation, what });
    });
    if (changed > 1) this.broken("fence", `${name} changed ${changed} rows`);
  }

  /** Takes an id that was made under a fence: its unit of time as milliseconds, and a number for it. */
  stamped(
    { slot, fence }: { readonly slot: number; readonly fence: number },
    { id, firstMs, lastMs }: { id: number; firstMs: number; lastMs: number },
  ): void {
    if (this.#ids.has(id)) this.broken("ids", `${id} was made a second time, under fence ${fence}`);
    this.#ids.add(id);
    const windows = this.#windows.get(slot) ?? [];
    const index = windows.findIndex((window) => window.fence === fence);
    const window = windows[index];
    if (window === undefined) {
      return this.broken(
        "ids",
        `slot ${slot} never had fence ${fence}, under which ${id} was made`,
      );
    }
    const { floorMs, ceilingMs, endMs } = window;
    if (firstMs < floorMs || lastMs > ceilingMs) {
      this.broken("ids", `${firstMs} to ${lastMs} is not within ${floorMs} to ${ceilingMs}`);
    }
    if (lastMs > endMs) {
      this.broken(
        "ids",
        `${firstMs} to ${lastMs} is behind ${endMs}, the last use of who released`,
      );
    }
    const next = windows[index + 1];
    if (next !== undefined && lastMs >= next.floorMs) {
      this.broken("ids", `${firstMs} to ${lastMs} is not before ${next.floorMs}, the next floor`);
    }
    window.usedMs = Math.max(window.usedMs, lastMs);
  }

  /** Compares what a holder believes with what the row said. */
  believed(
    lease: {
      readonly slot: number;
      readonly fence: number;
      readonly floorMs: number;
      readonly ceilingMs: number;
    },
  ): void {
    const { slot, fence, floorMs, ceilingMs } = lease;
    const window = this.#windows.get(slot)?.find((one) => one.fence === fence);
    if (window === undefined) {
      return this.broken("ceiling", `slot ${slot} never had fence ${fence}, which is believed`);
    }
    if (floorMs !== window.floorMs) {
      this.broken("ceiling", `the floor ${floorMs} is believed, the row's was ${window.floorMs}`);
    }
    if (ceilingMs > window.ceilingMs) {
      this.broken(
        "ceiling",
        `${ceilingMs} is believed, the row's was never above ${window.ceilingMs}`,
      );
    }
  }

  #provisioned(before: readonly SlotRow[], after: readonly SlotRow[]): void {
    for (const old of before) {
      const row = after.find(({ slot }) => slot === old.slot);
      if (row === undefined || !isSame(old, row)) {
        this.broken("fence", `${show(old)} was changed by rows that were inserted`);
      }
    }
  }

  #acquired(
    old: SlotRow,
    row: SlotRow,
    { nowMs, what }: { nowMs: number; what: { toString(): string } },
  ): void {
    if (row.fence !== old.fence + 1) this.broken("fence", what);
    const isFree = old.owner_key === null || old.expires_at <= nowMs ||
      old.owner_key === row.owner_key;
    if (!isFree) this.broken("fence", `${what} at ${nowMs}, when it was not free`);
    if (old.incarnation === row.incarnation) {
      this.broken("fence", `${what}, which the same acquire had taken already`);
    }
    if (old.expires_at > nowMs && this.tenancies.get(old.incarnation ?? "")?.isLive()) {
      this.broken("fence", `${what} at ${nowMs}, from a holder that is there`);
    }
    let windows = this.#windows.get(row.slot);
    if (windows === undefined) this.#windows.set(row.slot, windows = []);
    for (const { ceilingMs, endMs, usedMs } of windows) {
      if (row.floor_ms <= Math.min(ceilingMs, endMs)) {
        this.broken("windows", `${what}, its floor is not above ${Math.min(ceilingMs, endMs)}`);
      }
      if (row.floor_ms <= usedMs) {
        this.broken("windows", `${what}, its floor is not above ${usedMs}, which was stamped`);
      }
    }
    if (row.ceiling_ms < row.floor_ms || row.next_floor_ms <= row.ceiling_ms) {
      this.broken("windows", what);
    }
    windows.push({
      fence: row.fence,
      floorMs: row.floor_ms,
      ceilingMs: row.ceiling_ms,
      endMs: Infinity,
      usedMs: -Infinity,
    });
  }

  #changed(
    old: SlotRow,
    row: SlotRow,
    { tenancy, name, incarnation, what }: {
      tenancy: Tenancy;
      name: string;
      incarnation: string | undefined;
      what: { toString(): string };
    },
  ): void {
    if (row.fence !== old.fence) this.broken("fence", what);
    const isHolder = old.incarnation === incarnation && old.slot === tenancy.slot &&
      old.fence === tenancy.fence;
    if (!isHolder) {
      this.broken("fence", `${what}, of which fence ${tenancy.fence} is not the holder`);
    }
    const window = this.#windows.get(row.slot)?.find(({ fence }) => fence === row.fence);
    if (window === undefined) return this.broken("windows", what);
    if (row.floor_ms !== old.floor_ms || row.ceiling_ms < old.ceiling_ms) {
      this.broken("windows", what);
    }
    window.ceilingMs = Math.max(window.ceilingMs, row.ceiling_ms);
    if (name === "slot.release") {
      window.endMs = row.next_floor_ms - 1;
      if (window.usedMs > window.endMs) {
        this.broken("windows", `${what}, though ${window.usedMs} was stamped`);
      }
    } else if (row.next_floor_ms < old.next_floor_ms || row.next_floor_ms <= row.ceiling_ms) {
      this.broken("windows", what);
    }
  }
}

function isSame(one: SlotRow, other: SlotRow): boolean {
  return one.owner_key === other.owner_key && one.incarnation === other.incarnation &&
    one.fence === other.fence && one.expires_at === other.expires_at &&
    one.floor_ms === other.floor_ms && one.ceiling_ms === other.ceiling_ms &&
    one.next_floor_ms === other.next_floor_ms;
}

/** Whether two looks at the rows saw the same. */
export function areSame(some: readonly SlotRow[], others: readonly SlotRow[]): boolean {
  return some.every((row, index) => {
    const other = others[index];
    return other !== undefined && isSame(row, other);
  });
}

function show({ slot, owner_key, fence, ...row }: SlotRow): string {
  const { expires_at, floor_ms, ceiling_ms, next_floor_ms } = row;
  return `[slot ${slot} of ${owner_key ?? "nobody"}, fence ${fence}, expires ${expires_at}, ` +
    `${floor_ms} to ${ceiling_ms}, next ${next_floor_ms}]`;
}
