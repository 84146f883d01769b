/**
 * What a store tells an observer. Without an observer events are neither made nor sent.
 *
 * An observer that throws changes nothing: a range that was reserved is still handed out.
 *
 * @module
 */

import type { LeaseLostReason, StoreErrorKind } from "./errors.ts";

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

/** What every event of a lease tells of it. */
export interface LeaseEvent {
  /** The namespace of the slot. */
  readonly namespace: string;
  /** The slot. */
  readonly slot: number;
  /** The fence of the lease. */
  readonly fence: number;
}

/** A slot was acquired. */
export interface AcquireEvent extends LeaseEvent {
  /** The kind of event. */
  readonly type: "acquire";
  /** How long it took, in milliseconds. */
  readonly durationMs: number;
}

/** A lease was renewed. */
export interface RenewEvent extends LeaseEvent {
  /** The kind of event. */
  readonly type: "renew";
  /** How long it took, in milliseconds. */
  readonly durationMs: number;
}

/** An attempt to renew a hold's lease failed; another follows as long as the lease is trusted. */
export interface RenewFailedEvent extends LeaseEvent {
  /** The kind of event. */
  readonly type: "renewFailed";
  /** Why. */
  readonly error: unknown;
  /** How long the lease is still trusted, in milliseconds. */
  readonly trustedForMs: number;
}

/** A hold's lease is held no longer, though it was not released. */
export interface LostEvent extends LeaseEvent {
  /** The kind of event. */
  readonly type: "lost";
  /** Why. */
  readonly reason: LeaseLostReason;
}

/** A lease was released. */
export interface ReleasedEvent extends LeaseEvent {
  /** The kind of event. */
  readonly type: "released";
}

/** A lease could not be released: unless that is repeated, its slot comes free when it expires. */
export interface ReleaseFailedEvent extends LeaseEvent {
  /** The kind of event. */
  readonly type: "releaseFailed";
  /** Why. */
  readonly error: unknown;
}

/**
 * The store clock moved against this process's monotonic clock by more than the tolerance: somebody set
 * it, another server answers, or this machine slept.
 */
export interface ClockMovedEvent {
  /** The kind of event. */
  readonly type: "clockMoved";
  /** The namespace whose tolerance it exceeds. */
  readonly namespace: string;
  /** By how much at least, in milliseconds; negative if it moved backwards. */
  readonly byMs: number;
}

/** Everything that a store tells an observer; switch on `type`. */
export type StoreEvent =
  | AcquireEvent
  | ClockMovedEvent
  | ConflictEvent
  | LostEvent
  | ReleaseFailedEvent
  | ReleasedEvent
  | RenewEvent
  | RenewFailedEvent
  | ReserveEvent
  | RetryEvent
  | WarningEvent;

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
