/**
 * Group reserve: calls of one key share statements.
 *
 * While a reserve of a key is under way, later calls for the same key wait. When it has ended, those
 * with the same `initialOffset` go out as one statement of the summed size, and its range is split
 * among them in the order of their calls. So however many callers there are, each key has one
 * statement in flight, and a call without company is never delayed.
 *
 * ```text
 *   call a  ─────── statement 1 ───────→
 *   call b      ╰─ waits ─╮
 *   call c        ╰ waits ┴──── statement 2: b + c ────→
 * ```
 *
 * - A sum that would pass 2^63 - 1 is not formed: the next group takes the rest.
 * - A group that meets exhaustion is sent again one by one, in order, so that a greedy call starves
 *   nobody.
 * - A call's deadline includes its wait. If it ends before its group is sent, nothing is reserved for
 *   it; if it ends after, its part is a gap. A group's deadline is the latest of its calls', so that
 *   a statement that never ends holds up the key no longer than that, and no longer than any of its
 *   calls is left.
 * - An error of the group's statement is the error of each of its calls.
 *
 * @module
 */

import { RangeExhaustedError, TimeoutError } from "../errors.ts";
import { Deadline, type Runtime, type Waiter } from "../runtime.ts";
import { maxValue } from "../sql/dialect.ts";
import type { Range, Reservation, Take } from "./range.ts";

const name = "range.reserve";

/** A call that waits for its group, or for the group's statement. */
interface Waiting {
  readonly call: Reservation;
  readonly resolve: (range: Range) => void;
  readonly reject: (error: unknown) => void;
  /** What tells that its deadline is over. */
  waiter?: Waiter;
  /** Whether its deadline passed meanwhile. */
  ended: boolean;
  /** Its group's statement, once that is under way. */
  statement?: Statement;
}

/** A statement that is under way for a group. */
interface Statement {
  readonly deadline: Deadline;
  /** Notes that a call of the group does not wait for it any longer. */
  leave(): void;
}

/** Sends the calls of each key one statement at a time. */
export class GroupReserve {
  readonly #runtime: Runtime;
  readonly #take: Take;
  /** The calls that wait for each key that has a statement under way. */
  readonly #lanes = new Map<string, Waiting[]>();

  /**
   * Makes one for a table of ranges.
   *
   * @param runtime The clock and timers.
   * @param take Sends one statement.
   */
  constructor(runtime: Runtime, take: Take) {
    this.#runtime = runtime;
    this.#take = take;
  }

  /** Reserves for one call: at once if its key has nothing under way, else with the next group. */
  reserve(call: Reservation): Promise<Range> {
    const lane = this.#lanes.get(call.key);
    if (lane !== undefined) return this.#wait(lane, call);
    // Before the lane is there: what throws at once leaves none behind.
    const range = this.#take(call, 1);
    const waiting: Waiting[] = [];
    this.#lanes.set(call.key, waiting);
    const goOn = () => {
      if (waiting.length === 0) this.#lanes.delete(call.key);
      else void this.#drain(call.key, waiting);
    };
    range.then(goOn, goOn);
    return range;
  }

  #wait(lane: Waiting[], call: Reservation): Promise<Range> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        call,
        resolve,
        reject,
        waiter: undefined,
        ended: false,
        statement: undefined,
      };
      lane.push(waiting);
      waiting.waiter = call.deadline.onOver(() => {
        waiting.ended = true;
        const { statement } = waiting;
        if (statement === undefined) lane.splice(lane.indexOf(waiting), 1);
        else call.deadline.blockedBy ??= statement.deadline.blockedBy;
        reject(call.deadline.error(name, statement === undefined ? "nothing" : "unknown"));
        statement?.leave();
      });
    });
  }

  async #drain(key: string, lane: Waiting[]): Promise<void> {
    for (;;) {
      await turnOfCallers();
      if (lane.length === 0) break;
      await this.#send(nextGroup(lane));
    }
    this.#lanes.delete(key);
  }

  /** Sends a group; resolves when its calls have their answers, or none of them waits any longer. */
  async #send(group: readonly Waiting[]): Promise<void> {
    const [first] = group;
    if (first === undefined) return;
    const { owner } = first.call.deadline;
    const latestMs = group.reduce((latest, { call }) => Math.max(latest, call.deadline.atMs), 0);
    const timeoutMs = Math.max(1, latestMs - this.#runtime.monotonicMs());
    const deadline = new Deadline(this.#runtime, { timeoutMs, owner });
    const abandoned = new Promise<void>((resolve) => {
      let left = group.length;
      const leave = () => {
        if (--left === 0) resolve();
      };
      const statement = { deadline, leave };
      for (const waiting of group) waiting.statement = statement;
    });
    const { key, initialOffset } = first.call;
    const size = group.reduce((total, { call }) => total + call.size, 0n);
    const reservation = { key, size, initialOffset, deadline };
    await Promise.race([this.#answer(group, reservation), abandoned]);
  }

  async #answer(group: readonly Waiting[], reservation: Reservation): Promise<void> {
    try {
      split(group, await this.#take(reservation, group.length));
    } catch (error) {
      if (error instanceof RangeExhaustedError && group.length > 1) {
        for (const waiting of group) {
          if (!waiting.ended) await this.#send([waiting]);
        }
      } else fail(group, error);
    }
  }
}

/**
 * Lets those who were just given their ranges go on: what they ask for next belongs to the next
 * group. Without it every other group would be that of the one call that came first. Their promises
 * settle in a few turns of the microtask queue, so this waits for some, and for no timer.
 */
async function turnOfCallers(): Promise<void> {
  for (let turn = 0; turn < callersTurns; turn++) await undefined;
}

const callersTurns = 32;

/** Takes the calls that can share the next statement from the front of a lane. */
function nextGroup(lane: Waiting[]): Waiting[] {
  const initialOffset = lane[0]?.call.initialOffset ?? 0n;
  let size = 0n;
  const rest = lane.findIndex(({ call }) => {
    size += call.size;
    return call.initialOffset !== initialOffset || size > maxValue - initialOffset;
  });
  return lane.splice(0, rest < 0 ? lane.length : rest);
}

function split(group: readonly Waiting[], range: Range): void {
  let { start } = range;
  for (const { call, waiter, resolve } of group) {
    const end = start + call.size;
    waiter?.end();
    resolve({ start, end });
    start = end;
  }
}

function fail(group: readonly Waiting[], error: unknown): void {
  for (const { call, waiter, reject } of group) {
    waiter?.end();
    reject(error instanceof TimeoutError ? call.deadline.error(name, "unknown") : error);
  }
}
