/**
 * Contracts of slots and ids broken on purpose, one at a time. The model must find each.
 *
 * @module
 */

import type { Rule } from "./rules.ts";

/** A change of the source. */
export interface Edit {
  /** The file, from the root of the project. */
  readonly file: string;
  /** The text that is replaced; it stands in the file exactly once. */
  readonly find: string;
  /** What it is replaced by. */
  readonly replace: string;
}

/** One contract, and the changes that break it. */
export interface Mutant {
  /** The contract that it breaks. */
  readonly breaks: string;
  /** The rules of the model, of which one must find it. */
  readonly rules: readonly Rule[];
  readonly edits: readonly Edit[];
}

const statements = "core/slot/slot_statements.ts";
const slotStore = "core/slot/slot_store.ts";
const slotAcquire = "core/slot/slot_acquire.ts";
const slotHold = "core/slot/slot_hold.ts";
const slotLease = "core/slot/slot_lease.ts";
const dialect = "core/sql/dialect.ts";
const snowflakeIds = "core/id/snowflake_ids.ts";

/** The mutants. */
export const mutants: readonly Mutant[] = [
  {
    breaks: "a window begins at the next floor, not at the clock",
    rules: ["windows"],
    edits: [{ file: statements, find: "floor_ms = next_floor_ms,", replace: "floor_ms = ${now}," }],
  },
  {
    breaks: "an acquire compares the next floor, not the fence alone",
    rules: ["ceiling", "ids"],
    edits: [{
      file: statements,
      find: "and next_floor_ms = ${nextFloorMs}",
      replace: "",
    }],
  },
  {
    breaks: "a slot that is held is not taken",
    rules: ["fence"],
    edits: [{
      file: statements,
      find: "owner_key is null or expires_at <= ${now} or",
      replace: "owner_key is null or expires_at <= ${now} + 200 or",
    }],
  },
  {
    breaks: "the window is the row's, not the host clock's",
    rules: ["ids"],
    edits: [{
      file: slotAcquire,
      find: "acquiredOf({ ...request, ...windowIn(row) }, confirmationOf(written",
      replace: "acquiredOf({ ...request, ...windowIn(row), floorMs: written.sent.sentWallMs }, " +
        "confirmationOf(written",
    }],
  },
  {
    breaks: "a release keeps all that was stamped below the next floor",
    rules: ["windows"],
    edits: [{ file: statements, find: "${lastUsedMs + 1}", replace: "${lastUsedMs}" }],
  },
  {
    breaks: "a release that does not know what was stamped last leaves the next floor",
    rules: ["windows"],
    edits: [{
      file: statements,
      find: "? freed\n",
      replace: "? sql`${freed}, next_floor_ms = floor_ms`\n",
    }],
  },
  {
    breaks: "a renewal never lowers the ceiling",
    rules: ["windows"],
    edits: [{
      file: statements,
      find: "ceiling_ms = ${larger(sql`ceiling_ms`, ceiling)},",
      replace: "ceiling_ms = ${ceiling},",
    }],
  },
  {
    breaks: "a ceiling is believed once the statement that bound it has succeeded",
    rules: ["ceiling", "ids"],
    edits: [{
      file: slotStore,
      find: "set: (now: Statement) => renewing(now, lease, ceilingMs),",
      replace: "set: (now: Statement) => (stampWindow(lease).raise(ceilingMs ?? 0), " +
        "renewing(now, lease, ceilingMs)),",
    }],
  },
  {
    breaks: "what was stamped belongs to the lease, not to a generator",
    rules: ["ids"],
    edits: [{
      file: snowflakeIds,
      find: "this.#window = stampWindow(lease);",
      replace: `const own = { unit: -1, sequence: 0 };
    this.#window = new Proxy(stampWindow(lease), {
      get: (window, name) => name in own ? own[name] : Reflect.get(window, name),
      set: (window, name, value) => Reflect.set(name in own ? own : window, name, value),
    });`,
    }],
  },
  {
    breaks: "a lease is trusted from when the attempt was sent, not from the answer",
    rules: ["trust", "held"],
    edits: [{
      file: slotStore,
      find: "return confirmationOf(written, lease.ttlMs);",
      replace: "return confirmationOf({ ...written, sent: this.#rows.moment() }, lease.ttlMs);",
    }],
  },
  {
    breaks: "a renewal that comes late does not bring the expiry forward",
    rules: ["held"],
    edits: [{
      file: statements,
      find: "expires_at = ${larger(sql`expires_at`, sql`${now} + ${ttlMs}`)},",
      replace: "expires_at = ${now} + ${ttlMs},",
    }],
  },
  {
    breaks: "a renewal that comes very late does not bring the expiry forward",
    rules: ["held"],
    edits: [{
      file: statements,
      find: "expires_at = ${larger(sql`expires_at`, sql`${now} + ${ttlMs}`)},",
      replace: "expires_at = case when expires_at > ${now} + ${ttlMs} and " +
        "expires_at <= ${now} + ${2 * ttlMs} then expires_at else ${now} + ${ttlMs} end,",
    }],
  },
  {
    breaks: "a generator is closed before its release is sent",
    rules: ["ids"],
    edits: [
      {
        file: slotLease,
        find: "  window.close();\n  return lastUsedMs ?? known ?? ",
        replace: "  return lastUsedMs ?? known ?? ",
      },
      {
        file: slotHold,
        find: '    this.#end("released");\n    if (this.#ended === "replaced") return;',
        replace: '    if (this.#ended === "replaced") return;',
      },
      {
        file: slotHold,
        find: "      await this.#releasing;\n    } catch",
        replace: '      await this.#releasing;\n      this.#end("released");\n    } catch',
      },
    ],
  },
  {
    breaks: "a statement that does not know the fence takes only what nobody holds",
    rules: ["fence"],
    edits: [{
      file: slotAcquire,
      find: "${isVacant(now, request)}",
      replace: "(owner_key is null or expires_at <= ${now} or owner_key = ${request.ownerKey}) " +
        "and (incarnation is null or incarnation <> ${request.incarnation})",
    }],
  },
  {
    breaks: "a late write of an acquire does not take the lease that the acquire has given",
    rules: ["fence"],
    edits: [
      {
        file: statements,
        find:
          "or owner_key = ${ownerKey})\n    and (incarnation is null or incarnation <> ${incarnation})`",
        replace: "or owner_key = ${ownerKey}) and ${incarnation} is not null`",
      },
      {
        file: statements,
        find: "<= ${now})\n    and (incarnation is null or incarnation <> ${incarnation})`",
        replace: "<= ${now}) and ${incarnation} is not null`",
      },
    ],
  },
  {
    breaks: "a holder's write compares the fence and the incarnation",
    rules: ["fence"],
    edits: [{
      file: dialect,
      find: "and fence = ${fence}\n    and incarnation = ${incarnation}`",
      replace: "and ${fence} > 0\n    and ${incarnation} is not null`",
    }],
  },
  {
    // The fence alone tells every holder from every other, but not from one that has released.
    breaks: "a holder's write compares the incarnation",
    rules: ["fence"],
    edits: [{
      file: dialect,
      find: "and incarnation = ${incarnation}`",
      replace: "and ${incarnation} is not null`",
    }],
  },
  {
    breaks: "what the wall clock says is over is not trusted",
    rules: ["trust", "held"],
    edits: [{
      file: slotHold,
      find: "if (this.#parts.runtime.wallMs() < this.#trustedUntilWallMs) return true;",
      replace: "return true;",
    }],
  },
  {
    breaks: "trust that has run out is seen when it is asked for",
    rules: ["trust", "held"],
    edits: [{
      file: slotHold,
      find: "if (this.#parts.runtime.monotonicMs() >= this.#trustedUntilMs) this.#lose",
      replace: "if (this.#parts.runtime.monotonicMs() >= Infinity) this.#lose",
    }],
  },
  {
    breaks: "a slot whose floor is as far ahead as allowed is a candidate",
    rules: ["choice"],
    edits: [{
      file: statements,
      find: "next_floor_ms <= ${now} + ${maxAheadMs}",
      replace: "next_floor_ms <= ${now} + ${maxAheadMs - 200}",
    }],
  },
  {
    breaks: "an owner key gets its own slot back",
    rules: ["choice"],
    edits: [{
      file: statements,
      find: "when owner_key = ${ownerKey} then 1",
      replace: "when owner_key = ${ownerKey} then 5",
    }],
  },
  {
    breaks: "a unit that begins before the window is not used",
    rules: ["ids"],
    edits: [{
      file: snowflakeIds,
      find: "Math.ceil((lease.floorMs - layout.epochMs)",
      replace: "Math.floor((lease.floorMs - layout.epochMs)",
    }],
  },
  {
    breaks: "a unit that ends behind the window is not used",
    rules: ["ids"],
    edits: [{
      file: snowflakeIds,
      find: "if (epochMs + (unit + 1) * unitMs - 1 > window.ceilingMs) return false;",
      replace: "if (epochMs + unit * unitMs > window.ceilingMs) return false;",
    }],
  },
  {
    breaks: "a clock that was set back makes no id a second time",
    rules: ["ids", "order"],
    edits: [{
      file: snowflakeIds,
      find: "const isLater = clock > window.unit;",
      replace: "const isLater = clock !== window.unit;",
    }],
  },
];
