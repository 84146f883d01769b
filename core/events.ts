/**
 * What a store tells an observer. Without an observer events are neither made nor sent.
 *
 * An observer that throws changes nothing: a range that was reserved is still handed out.
 *
 * @module
 */

import type { StoreErrorKind } from "./errors.ts";

/** A range was reserved, for one call or for a group of calls. */
export interface ReserveEvent {
  /** The kind of event. */
  readonly type: "reserve";
  /** The key. */
  readonly key: string;
  /** The first value of the range. */
  readonly start: bigint;
  /** One past its last value. */
  readonly end: bigint;
  /** How many calls shared the statement. */
  readonly calls: number;
  /** How long it took, in milliseconds. */
  readonly durationMs: number;
}

/** A statement was rolled back by the database and will be repeated. */
export interface RetryEvent {
  /** The kind of event. */
  readonly type: "retry";
  /** The name of the statement. */
  readonly statement: string;
  /** Why it was rolled back. */
  readonly kind: StoreErrorKind;
  /** How many attempts have failed so far. */
  readonly attempt: number;
  /** How long the store waits before the next attempt, in milliseconds. */
  readonly delayMs: number;
}

/** An answer was refused because it cannot be what the statement wrote. */
export interface ConflictEvent {
  /** The kind of event. */
  readonly type: "conflict";
  /** The key. */
  readonly key: string;
  /** The value that came back, if there was one. */
  readonly returned: bigint | undefined;
  /** How far it lies behind the lowest value that was possible. */
  readonly behindBy: bigint | undefined;
}

/** Something about the server or its tables weakens what the store promises. */
export interface WarningEvent {
  /** The kind of event. */
  readonly type: "warning";
  /** What, and what to do about it. */
  readonly message: string;
}

/** Everything that a store tells an observer; switch on `type`. */
export type StoreEvent = ReserveEvent | RetryEvent | ConflictEvent | WarningEvent;

/** An observer, for logs and metrics. It is called synchronously and should be quick; it is not awaited. */
export type EventListener = (event: StoreEvent) => void;

/** Calls an observer without letting its failure reach the operation that it observes. */
export function emit(listener: EventListener, event: StoreEvent): void {
  try {
    const result: unknown = listener(event);
    if (result instanceof Promise) result.catch(() => {});
  } catch {
    // The operation has happened already; failing it now would turn its result into a gap.
  }
}
