/**
 * Every error that the library throws extends {@linkcode FencepostError}, has a stable `code`, and
 * reads "Cannot <do> <what>: <reason>: received <value>".
 *
 * An error never contains credentials. A {@linkcode StoreError}, which stands for an error of the
 * driver, contains no bound value either; the driver's own error is its `cause`.
 *
 * @module
 */

/** The stable codes of the library's errors. */
export type ErrorCode =
  | "CONFIGURATION"
  | "DRIVER_MISSING"
  | "IDS_EXHAUSTED"
  | "INVALID_ARGUMENT"
  | "IN_TRANSACTION"
  | "LEASE_LOST"
  | "NAMESPACE_CONFLICT"
  | "RANGE_EXHAUSTED"
  | "RANGE_SEALED"
  | "RESERVE_CONFLICT"
  | "SCHEMA"
  | "SLOTS_EXHAUSTED"
  | "STORE"
  | "STORE_CLOSED"
  | "TIMEOUT";

/**
 * What kind of failure a driver's error stands for, as a dialect classifies it.
 *
 * `deadlock` and `serialization` mean that the database rolled the statement back: the store has
 * repeated it already, with a bound. `connection` means that the outcome is unknown.
 */
export type StoreErrorKind =
  | "connection"
  | "deadlock"
  | "diskFull"
  | "duplicate"
  | "missingTable"
  | "other"
  | "permission"
  | "readOnly"
  | "serialization";

/**
 * The base of all errors of this library.
 *
 * @example Telling errors apart by their code
 * ```ts
 * import { FencepostError, InvalidArgumentError } from "@fencepost/store";
 *
 * const error: unknown = new InvalidArgumentError("Cannot reserve range: …");
 * if (error instanceof FencepostError) console.log(error.code); // "INVALID_ARGUMENT"
 * ```
 */
export class FencepostError extends Error {
  /** A stable code: switch on it rather than on the message. */
  readonly code: ErrorCode;

  /**
   * Makes an error with a code, a message and, where there is one, a cause.
   *
   * @param code The stable code.
   * @param message What could not be done, and why.
   * @param options The standard options of `Error`.
   */
  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.name = new.target.name;
  }
}

/** An argument or option is not allowed. Nothing was sent to the database. */
export class InvalidArgumentError extends FencepostError {
  /**
   * Makes the error.
   *
   * @param message What, which value, and what is allowed.
   */
  constructor(message: string) {
    super("INVALID_ARGUMENT", message);
  }
}

/** A driver, a setting of it, or a server cannot be used as it is. */
export class ConfigurationError extends FencepostError {
  /**
   * Makes the error.
   *
   * @param message What cannot be used, and what can.
   * @param options The standard options of `Error`.
   */
  constructor(message: string, options?: ErrorOptions) {
    super("CONFIGURATION", message, options);
  }
}

/** The package of a driver is not installed, or the runtime lacks the driver. */
export class DriverMissingError extends FencepostError {
  /** The name of the package, or of the runtime's module. */
  readonly driver: string;

  /**
   * Makes the error.
   *
   * @param driver The name of the package, or of the runtime's module.
   * @param options The standard options of `Error`, and what to do about it.
   */
  constructor(driver: string, options: ErrorOptions & { remedy?: string } = {}) {
    const { remedy = "the driver is not installed, add the package", ...rest } = options;
    super("DRIVER_MISSING", `Cannot open store: ${remedy}: received "${driver}"`, rest);
    this.driver = driver;
  }
}

/**
 * A write was about to run, or has run, inside a transaction that the store did not open. It would
 * count only once that transaction commits, so it is refused: a rollback would hand the same range
 * out again.
 */
export class InTransactionError extends FencepostError {
  /**
   * Makes the error.
   *
   * @param message What was refused.
   */
  constructor(message: string) {
    super("IN_TRANSACTION", message);
  }
}

/** A table is missing, or lacks a column. */
export class SchemaError extends FencepostError {
  /** The table, as it was configured. */
  readonly table: string;
  /** The columns that are missing; empty if the whole table is. */
  readonly missingColumns: readonly string[];

  /**
   * Makes the error.
   *
   * @param message What is missing, and how to create it.
   * @param details The table and the columns that are missing.
   */
  constructor(message: string, details: { table: string; missingColumns: readonly string[] }) {
    super("SCHEMA", message);
    this.table = details.table;
    this.missingColumns = details.missingColumns;
  }
}

/** The database or its driver failed. `cause` is the driver's error. */
export class StoreError extends FencepostError {
  /** What kind of failure it was. */
  readonly kind: StoreErrorKind;
  /** The name of the statement that failed, such as "range.reserve". */
  readonly statement: string;

  /**
   * Makes the error.
   *
   * @param message What could not be done, without bound values.
   * @param details The kind, the statement's name and the driver's error.
   */
  constructor(
    message: string,
    details: { kind: StoreErrorKind; statement: string; cause: unknown },
  ) {
    super("STORE", message, { cause: details.cause });
    this.kind = details.kind;
    this.statement = details.statement;
  }
}

/** The store was closed before the call. */
export class StoreClosedError extends FencepostError {
  /** Makes the error. */
  constructor() {
    super("STORE_CLOSED", "Cannot use store: it is closed");
  }
}

/**
 * A call did not end within its deadline.
 *
 * If `outcome` is "unknown", the statement had been given to the driver: it may or may not have been
 * carried out, so a reserve may have left a gap. If it is "nothing", it had not.
 */
export class TimeoutError extends FencepostError {
  /** Whether the statement had been given to the driver when the time ran out. */
  readonly outcome: "nothing" | "unknown";
  /** The time that the call was given, in milliseconds. */
  readonly timeoutMs: number;

  /**
   * Makes the error.
   *
   * @param action What was to be done, such as "run range.reserve".
   * @param details The time that was given, and whether a statement was under way.
   */
  constructor(action: string, details: { timeoutMs: number; outcome: "nothing" | "unknown" }) {
    const { timeoutMs, outcome } = details;
    const state = outcome === "unknown"
      ? "the outcome of the statement is unknown"
      : "nothing was sent";
    super("TIMEOUT", `Cannot ${action}: not done in time, ${state}: received ${timeoutMs} ms`);
    this.outcome = outcome;
    this.timeoutMs = timeoutMs;
  }
}

/** The key of a range was sealed: it never gives another value. */
export class RangeSealedError extends FencepostError {
  /** The sealed key. */
  readonly key: string;

  /**
   * Makes the error.
   *
   * @param action What was to be done, such as "reserve range".
   * @param key The sealed key.
   */
  constructor(action: string, key: string) {
    super("RANGE_SEALED", `Cannot ${action}: the key is sealed: received ${JSON.stringify(key)}`);
    this.key = key;
  }
}

/** Fewer values are left below 2^63 than were asked for. The row is unchanged. */
export class RangeExhaustedError extends FencepostError {
  /** The key that is exhausted. */
  readonly key: string;
  /** The first value that was not handed out yet. */
  readonly nextValue: bigint;
  /** How many values were asked for. */
  readonly size: bigint;

  /**
   * Makes the error.
   *
   * @param key The key that is exhausted.
   * @param details The first value that is left, and the size that was asked for.
   */
  constructor(key: string, details: { nextValue: bigint; size: bigint }) {
    const { nextValue, size } = details;
    super(
      "RANGE_EXHAUSTED",
      `Cannot reserve range: key ${JSON.stringify(key)} has ${9223372036854775807n - nextValue} ` +
        `values left: received size ${size}`,
    );
    this.key = key;
    this.nextValue = nextValue;
    this.size = size;
  }
}

/**
 * The value that came back cannot be the one that the statement wrote: a proxy answered from
 * elsewhere, or the database lost committed writes. No range was handed out.
 *
 * See `advance` for how to bring a key forward after lost writes.
 */
export class ReserveConflictError extends FencepostError {
  /** The key that was reserved from. */
  readonly key: string;
  /** The value that came back, if there was one. */
  readonly returned: bigint | undefined;
  /** How far the value lies behind the lowest one possible; undefined without a value. */
  readonly behindBy: bigint | undefined;

  /**
   * Makes the error.
   *
   * @param key The key that was reserved from.
   * @param details The value that came back, and the lowest one that was possible.
   */
  constructor(key: string, details: { returned: bigint | undefined; lowest: bigint }) {
    const { returned, lowest } = details;
    const behindBy = returned === undefined ? undefined : lowest - returned;
    super(
      "RESERVE_CONFLICT",
      `Cannot reserve range: the answer for key ${JSON.stringify(key)} is not what the statement ` +
        (returned === undefined
          ? "wrote, the key is neither sealed nor exhausted: a proxy lost it, or the connection is " +
            "inside a transaction of the application's: received no value"
          : `wrote, it is ${behindBy} behind the lowest value possible: received ${returned}`),
    );
    this.key = key;
    this.returned = returned;
    this.behindBy = behindBy;
  }
}

/** Somebody else decided the limit or tolerance of the namespace before, and they are for good. */
export class NamespaceConflictError extends FencepostError {
  /** The namespace. */
  readonly namespace: string;
  /** How many slots it has. */
  readonly limit: number;
  /** The tolerance that it has, in milliseconds. */
  readonly toleranceMs: number;

  /**
   * Makes the error.
   *
   * @param namespace The namespace.
   * @param details What it has, and what was asked for.
   */
  constructor(
    namespace: string,
    details: { limit: number; toleranceMs: number; asked: { limit: number; toleranceMs: number } },
  ) {
    const { limit, toleranceMs, asked } = details;
    super(
      "NAMESPACE_CONFLICT",
      `Cannot acquire slot: namespace ${
        JSON.stringify(namespace)
      } has the limit ${limit} and the ` +
        `toleranceMs ${toleranceMs}, which all its users must give: received limit ${asked.limit} ` +
        `and toleranceMs ${asked.toleranceMs}`,
    );
    this.namespace = namespace;
    this.limit = limit;
    this.toleranceMs = toleranceMs;
  }
}

/** Every slot of the namespace is held, or was used too far ahead of the store clock. */
export class SlotsExhaustedError extends FencepostError {
  /** The namespace. */
  readonly namespace: string;
  /** How many slots it has. */
  readonly limit: number;
  /** How long it takes until the next slot comes free unless its lease is renewed, in milliseconds. */
  readonly freeInMs: number;
  /** When that is by the store clock. */
  readonly nextFreeAt: Date;

  /**
   * Makes the error.
   *
   * @param namespace The namespace.
   * @param details How many slots it has, the store clock, and when the next one comes free by it.
   */
  constructor(namespace: string, details: { limit: number; nowMs: number; nextFreeMs: number }) {
    const { limit, nowMs, nextFreeMs } = details;
    const freeInMs = Math.max(0, nextFreeMs - nowMs);
    const nextFreeAt = new Date(Math.min(nextFreeMs, maxDateMs));
    super(
      "SLOTS_EXHAUSTED",
      `Cannot acquire slot: all ${limit} slots of namespace ${
        JSON.stringify(namespace)
      } are held ` +
        `or not free yet; unless it is renewed the next comes free in ${freeInMs} ms, at ` +
        `${nextFreeAt.toISOString()} by the database's clock: received limit ${limit}`,
    );
    this.namespace = namespace;
    this.limit = limit;
    this.freeInMs = freeInMs;
    this.nextFreeAt = nextFreeAt;
  }
}

/** The last millisecond that a `Date` can have. */
const maxDateMs = 8.64e15;

/**
 * Why a lease is held no longer: `replaced`, the row is no longer the holder's; `expired`, it could not
 * be renewed for too long; `readOnly`, the server is a replica or a demoted primary; `released`, it was
 * given back, by its holder or by closing the store; `closed`, only the generator was closed.
 */
export type LeaseLostReason = "closed" | "expired" | "readOnly" | "released" | "replaced";

const lostReasons: Readonly<Record<LeaseLostReason, string>> = {
  closed: "the generator was closed",
  expired: "the lease is held no longer, it could not be renewed in time",
  readOnly: "the lease is held no longer, the server is read-only, a replica or a demoted primary",
  released: "the lease is held no longer, it was released",
  replaced: "the lease is held no longer, another holds the slot, or it was released",
};

/** The lease is held no longer, and is not acquired again by itself. */
export class LeaseLostError extends FencepostError {
  /** The namespace of the slot. */
  readonly namespace: string;
  /** The slot. */
  readonly slot: number;
  /** The fence of the lease. */
  readonly fence: number;
  /** Why it is held no longer. */
  readonly reason: LeaseLostReason;

  /**
   * Makes the error.
   *
   * @param action What was to be done, such as "renew lease".
   * @param details The lease, and why it is held no longer.
   */
  constructor(
    action: string,
    details: { namespace: string; slot: number; fence: number; reason: LeaseLostReason },
  ) {
    const { namespace, slot, fence, reason } = details;
    super(
      "LEASE_LOST",
      `Cannot ${action}: ${lostReasons[reason]}: received slot ${slot} of namespace ` +
        `${JSON.stringify(namespace)} with fence ${fence}`,
    );
    this.namespace = namespace;
    this.slot = slot;
    this.fence = fence;
    this.reason = reason;
  }
}

/** The bits for the time of a layout have run out: there is no later id. */
export class IdsExhaustedError extends FencepostError {
  /** When they ran out. */
  readonly exhaustedAt: Date;

  /**
   * Makes the error.
   *
   * @param exhaustedAt When the bits for the time ran out.
   */
  constructor(exhaustedAt: Date) {
    super(
      "IDS_EXHAUSTED",
      `Cannot make id: the bits of the layout for the time have run out, at ` +
        `${exhaustedAt.toISOString()}, use one with a later epoch or more of them, in a namespace ` +
        `and a column of its own: received a later time`,
    );
    this.exhaustedAt = exhaustedAt;
  }
}
