/**
 * The statements of slots, as far as every database understands them. `now` is the store clock.
 *
 * A row of the slot table belongs to nobody if its owner is null, or if its lease has expired. These are
 * all that ever changes one:
 *
 * | | if | then |
 * | --- | --- | --- |
 * | acquire | fence and next floor are as they were read; free, expired, or mine | fence + 1; floor = next floor; expires = now + ttl; ceiling = max(floor, expires) + tolerance; next floor = ceiling + 1 |
 * | renew | fence and incarnation are mine | expires up to now + ttl, ceiling and next floor up to now + ttl + tolerance; none goes down |
 * | release | fence and incarnation are mine | owner and incarnation null; next floor = max(floor, last used + 1), if that is known |
 *
 * @module
 */

import { type Dialect, isHeldBy, type RowLock, type SlotHolder } from "../sql/dialect.ts";
import { type Identifier, joined, literal, sql, type Statement } from "../sql/statement.ts";

/** An acquire, already checked. */
export interface AcquireRequest {
  readonly namespace: string;
  readonly limit: number;
  readonly toleranceMs: number;
  readonly ttlMs: number;
  readonly maxAheadMs: number;
  readonly ownerKey: string;
  /** What tells this acquire from every other. */
  readonly incarnation: string;
  /** -1 if there is none. */
  readonly preferredSlot: number;
}

/** The tables of slots. */
export interface SlotTables {
  readonly slot: Identifier;
  readonly namespace: Identifier;
}

/** A row that can be acquired, as it was read. */
export interface Candidate {
  readonly slot: number;
  readonly fence: number;
  readonly nextFloorMs: number;
}

/** More slots than the largest namespace has, and a prime: `slot * factor + shift` mixes them all. */
const modulus = 65_537;
/** What keeps `slot * factor + shift` within 32 bits, as some databases count. */
const maxFactor = 32_767;

/** A way to put slots in order in which every slot is as likely to be first. */
export interface Shuffle {
  readonly factor: number;
  readonly shift: number;
}

/** Draws one: it spreads those who look for a slot at the same moment. */
export function shuffleOf(random: () => number): Shuffle {
  return {
    factor: 1 + Math.floor(random() * maxFactor),
    shift: Math.floor(random() * modulus),
  };
}

/**
 * Whether a slot can be taken: it is free, or its lease has expired, or the owner key is the same. But none
 * that this acquire has taken: a write of it that comes late would take the lease from its own caller.
 */
export function isFree(
  now: Statement,
  { ownerKey, incarnation }: Pick<AcquireRequest, "ownerKey" | "incarnation">,
): Statement {
  return sql`(owner_key is null or expires_at <= ${now} or owner_key = ${ownerKey})
    and (incarnation is null or incarnation <> ${incarnation})`;
}

/**
 * Whether a slot can be taken by a statement that does not know its fence: not if it is held, also not by
 * the same owner key. Such a statement may come late, from a process that is no more, and would take the
 * lease from the one that came after it.
 */
export function isVacant(
  now: Statement,
  { incarnation }: Pick<AcquireRequest, "incarnation">,
): Statement {
  return sql`(owner_key is null or expires_at <= ${now})
    and (incarnation is null or incarnation <> ${incarnation})`;
}

/** Whether a slot can be taken and was not used too far ahead of the clock. */
export function isCandidate(now: Statement, request: AcquireRequest): Statement {
  const { limit, maxAheadMs } = request;
  return sql`slot < ${limit} and next_floor_ms <= ${now} + ${maxAheadMs}
    and ${isFree(now, request)}`;
}

/** Own rows first, then the preferred slot, then the one last held, then any. */
export function preference(
  request: AcquireRequest,
  { shuffle: { factor, shift }, dialect }: { shuffle: Shuffle; dialect: Dialect },
): Statement {
  const { ownerKey, preferredSlot } = request;
  return sql`
    case
      when owner_key = ${ownerKey} then 1
      when slot = ${preferredSlot} then 2
      when last_owner_key = ${ownerKey} then 3
      else 4
    end, ${dialect.remainder(sql`(slot * ${factor} + ${shift})`, literal(modulus))}`;
}

/**
 * What an acquire writes. The window begins where that of every holder before ended.
 *
 * @param now The store clock.
 * @param request Who acquires.
 * @param ceilingMs The ceiling, where the statement does not return the one that it computes.
 */
export function acquiring(
  now: Statement,
  request: AcquireRequest,
  ceilingMs: number | undefined,
): Statement {
  const { ownerKey, incarnation, ttlMs, toleranceMs } = request;
  const computed = sql`${larger(sql`next_floor_ms`, sql`${now} + ${ttlMs}`)} + ${toleranceMs}`;
  return sql`
    owner_key = ${ownerKey},
    last_owner_key = ${ownerKey},
    incarnation = ${incarnation},
    fence = fence + 1,
    expires_at = ${now} + ${ttlMs},
    floor_ms = next_floor_ms,
    ceiling_ms = ${ceilingMs ?? computed},
    next_floor_ms = ${ceilingMs === undefined ? sql`${computed} + 1` : ceilingMs + 1}`;
}

/** Whether a row is still as it was read, and can still be taken. */
export function isUntouched(
  now: Statement,
  request: AcquireRequest,
  { slot, fence, nextFloorMs }: Candidate,
): Statement {
  return sql`namespace = ${request.namespace} and slot = ${slot} and fence = ${fence}
    and next_floor_ms = ${nextFloorMs} and ${isFree(now, request)}`;
}

/**
 * What a renewal writes: everything goes up, never down. A renewal that waited for a lock has the clock of
 * when it began to wait, and may come after one that began later, whose expiry is trusted by now.
 *
 * @param now The store clock.
 * @param lease How long the lease lasts, and how far its ceiling lies beyond that.
 * @param ceilingMs The ceiling, where the statement does not return the one that it computes.
 */
export function renewing(
  now: Statement,
  { ttlMs, toleranceMs }: { readonly ttlMs: number; readonly toleranceMs: number },
  ceilingMs: number | undefined,
): Statement {
  const lastsMs = ttlMs + toleranceMs;
  const [ceiling, nextFloor] = ceilingMs === undefined
    ? [sql`${now} + ${lastsMs}`, sql`${now} + ${lastsMs + 1}`]
    : [sql`${ceilingMs}`, sql`${ceilingMs + 1}`];
  return sql`
    expires_at = ${larger(sql`expires_at`, sql`${now} + ${ttlMs}`)},
    ceiling_ms = ${larger(sql`ceiling_ms`, ceiling)},
    next_floor_ms = ${larger(sql`next_floor_ms`, nextFloor)}`;
}

/** What a release writes: nothing about the window unless it is known what was stamped last. */
export function releasing(lastUsedMs: number | undefined): Statement {
  const freed = sql`owner_key = null, incarnation = null`;
  return lastUsedMs === undefined
    ? freed
    : sql`${freed}, next_floor_ms = ${larger(sql`floor_ms`, sql`${lastUsedMs + 1}`)}`;
}

function larger(one: Statement, other: Statement): Statement {
  return sql`case when ${one} > ${other} then ${one} else ${other} end`;
}

/**
 * The store clock, what the namespace is, how many of its rows there are, when the next one comes free,
 * and a few that can be taken, or the one that this acquire has taken already: one row at least.
 */
export function selectCandidates(
  tables: SlotTables,
  request: AcquireRequest,
  { dialect, shuffle, count }: { dialect: Dialect; shuffle: Shuffle; count: number },
): Statement {
  const { namespace, limit, incarnation, maxAheadMs, ownerKey } = request;
  const now = sql`clock.now_ms`;
  return sql`
    select
      clock.now_ms, n.slot_limit, n.tolerance_ms,
      (
        select count(*) from ${tables.slot} as counted
        where counted.namespace = ${namespace} and counted.slot < ${limit}
      ) as provisioned,
      (
        select min(
          case
            when other.owner_key <> ${ownerKey}
              and other.expires_at > other.next_floor_ms - ${maxAheadMs}
            then other.expires_at
            else other.next_floor_ms - ${maxAheadMs}
          end
        )
        from ${tables.slot} as other
        where other.namespace = ${namespace} and other.slot < ${limit}
      ) as next_free_ms,
      case when c.incarnation = ${incarnation} then 1 else 0 end as mine,
      c.slot, c.fence, c.expires_at, c.floor_ms, c.ceiling_ms, c.next_floor_ms
    from (select ${dialect.nowMillis} as now_ms) as clock
    left join ${tables.namespace} as n on n.namespace = ${namespace}
    left join ${tables.slot} as c on c.namespace = ${namespace}
      and (c.incarnation = ${incarnation} or (${isCandidate(now, request)}))
    order by
      case when c.incarnation = ${incarnation} then 0 else 1 end,
      ${preference(request, { shuffle, dialect })}${dialect.firstRows(count)}`;
}

/** Whether the namespace is what the request says, and has all its rows, each once. */
export function isSettled(tables: SlotTables, request: AcquireRequest): Statement {
  const { namespace, limit, toleranceMs } = request;
  return sql`
    (
      select count(*) from ${tables.namespace} as n
      where n.namespace = ${namespace} and n.slot_limit = ${limit}
        and n.tolerance_ms = ${toleranceMs}
    ) = 1 and (
      select count(*) from ${tables.slot} as counted
      where counted.namespace = ${namespace} and counted.slot < ${limit}
    ) = ${limit}`;
}

/** Decides what a namespace is, or fails as a duplicate. */
export function insertNamespace(tables: SlotTables, request: AcquireRequest): Statement {
  const { namespace, limit, toleranceMs } = request;
  return sql`
    insert into ${tables.namespace} (namespace, slot_limit, tolerance_ms)
    values (${namespace}, ${limit}, ${toleranceMs})
  `;
}

/** How many rows of slots one statement inserts at most. */
export const provisionStep = 8_192;

/**
 * Inserts those rows of a namespace that are not there, in the order of their slots, or fails as a
 * duplicate if somebody else is just doing so. The numbers come from digits of base 16: recursive
 * queries stop early on some databases.
 */
export function insertSlots(
  tables: SlotTables,
  namespace: string,
  { from, to }: { from: number; to: number },
): Statement {
  return sql`
    insert into ${tables.slot} (namespace, slot)
    select n.namespace, numbers.slot
    from ${tables.namespace} as n
    cross join ${numbersBelow(to)} as numbers
    where n.namespace = ${namespace} and numbers.slot < n.slot_limit
      and numbers.slot >= ${from} and numbers.slot < ${to}
      and not exists (
        select 1 from ${tables.slot} as known
        where known.namespace = n.namespace and known.slot = numbers.slot
      )
    order by numbers.slot
  `;
}

const digits = joined(
  Array.from({ length: 16 }, (_, digit) => sql`select ${literal(digit)} as d`),
  (before, after) => sql`${before} union all ${after}`,
);

/** All numbers with as many digits of base 16 as are needed for those below `to`. */
function numbersBelow(to: number): Statement {
  if (to <= 16) return sql`(select a.d as slot from (${digits}) as a)`;
  if (to <= 256) {
    return sql`(
      select a.d + 16 * b.d as slot from (${digits}) as a cross join (${digits}) as b
    )`;
  }
  return sql`(
    select a.d + 16 * b.d + 256 * c.d + 4096 * e.d as slot
    from (${digits}) as a cross join (${digits}) as b
    cross join (${digits}) as c cross join (${digits}) as e
  )`;
}

/** What a holder's row says now, and the store clock. */
export function selectHeld(
  holder: SlotHolder,
  { nowMillis, lock: { hint = nothing, clause = nothing } }: {
    nowMillis: Statement;
    lock: RowLock;
  },
): Statement {
  return sql`
    select slot, fence, expires_at, floor_ms, ceiling_ms, ${nowMillis} as now_ms
    from ${holder.table}${hint}
    where ${isHeldBy(holder)}${clause}`;
}

/** What a namespace is, and all its rows. */
export function selectNamespace(
  tables: SlotTables,
  namespace: string,
  nowMillis: Statement,
): Statement {
  return sql`
    select
      clock.now_ms, n.slot_limit, n.tolerance_ms,
      s.slot, s.owner_key, s.last_owner_key, s.fence,
      s.expires_at, s.floor_ms, s.ceiling_ms, s.next_floor_ms
    from (select ${nowMillis} as now_ms) as clock
    cross join ${tables.namespace} as n
    left join ${tables.slot} as s on s.namespace = n.namespace
    where n.namespace = ${namespace}
    order by s.slot
  `;
}

const nothing = sql``;
