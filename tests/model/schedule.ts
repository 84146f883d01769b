/**
 * Schedules as data: what a world is like, and what happens in it, one command after the other. They
 * are drawn, shrunk and printed by fast-check.
 *
 * @module
 */

import fc from "fast-check";

/**
 * How slots are written: `returning` as SQLite does it; `bound`, where an update returns nothing and the
 * ceiling is bound, as on MySQL and MariaDB; `take`, where one statement picks a row and writes it, as on
 * PostgreSQL.
 */
export type Form = "bound" | "returning" | "take";

/** What becomes of a statement. */
export type Fault =
  /** It is not carried out, and the connection breaks. */
  | "lost"
  /** It is not carried out, and no answer comes. */
  | "silent"
  /** It is carried out, and the connection breaks before the answer. */
  | "replyLost"
  /** It is carried out, and no answer comes. */
  | "replySilent"
  /** It is carried out, and its answer comes later. */
  | "slow"
  /** The connection breaks, and it is carried out later. */
  | "late"
  /** The same, with the store clock of when it was sent. */
  | "lateFrozen"
  /** No answer comes, and it is carried out later, with the store clock of when it was sent. */
  | "lateSilent"
  /** It is carried out and answered later. */
  | "waiting"
  /** The same, with the store clock of when it was sent, as of one that waits for a lock. */
  | "locked"
  /** The database rolls it back. */
  | "deadlock";

/** A fault of the statement that comes after so many others. */
export interface Befalling {
  readonly fault: Fault;
  readonly after: number;
}

/**
 * Something that happens. `lease` counts the leases that processes have, from the latest back, and `by`
 * the generators of one.
 */
export type Command =
  | {
    readonly do: "acquire";
    readonly process: number;
    /**
     * A lease without a hold, a hold that is renewed by hand, one that renews itself, one that stamps
     * nothing, or a generator with a hold of its own.
     */
    readonly as: "background" | "hold" | "ids" | "job" | "lease";
    /** Whether it has the owner key of the process, or one of its own. */
    readonly ownKey: boolean;
    readonly preferred: number;
    readonly suffers: Befalling | null;
  }
  | {
    readonly do: "renew";
    readonly lease: number;
    /** Whether a copy of the lease is given. */
    readonly copy: boolean;
    readonly suffers: Befalling | null;
  }
  | {
    readonly do: "release";
    readonly lease: number;
    /** Whether it tells what was stamped last, where the library does not know. */
    readonly tells: boolean;
    readonly copy: boolean;
    readonly suffers: Befalling | null;
  }
  /** The process ends without a word, and another starts in its place. */
  | {
    readonly do: "crash";
    readonly process: number;
    readonly sameKey: boolean;
    /** Whether that acquires at once. */
    readonly returns: boolean;
  }
  | {
    readonly do: "generator";
    readonly lease: number;
    /** What is asked for: one over the hold, over a copy of it, or one of another layout. */
    readonly over: "copy" | "hold" | "otherLayout";
  }
  | {
    readonly do: "stamp";
    readonly lease: number;
    readonly by: number;
    readonly count: number;
  }
  /** Asks for ids, and waits for them. */
  | {
    readonly do: "next";
    readonly lease: number;
    readonly by: number;
    readonly count: number;
  }
  /** Stamps a unit of the window without a generator, so many units before the last. */
  | {
    readonly do: "byHand";
    readonly lease: number;
    readonly before: number;
  }
  | {
    readonly do: "held";
    readonly lease: number;
    /** Whether its process is blocked until the lease must be trusted no longer, and asked then. */
    readonly outlasted: boolean;
  }
  /** Befalls a statement that the process sends by itself. */
  | { readonly do: "fault"; readonly process: number; readonly suffers: Befalling }
  /** Carries out, or answers, one of the statements that wait, counted from the latest back. */
  | { readonly do: "late"; readonly index: number }
  /** Time passes. The timers of the processes whose bit is set do not fire meanwhile. */
  | { readonly do: "pass"; readonly ms: number; readonly blocked: number }
  | { readonly do: "storeJumps"; readonly ms: number }
  | { readonly do: "wallJumps"; readonly process: number; readonly ms: number }
  /** How fast the clocks of a process run from now on, in percent. */
  | {
    readonly do: "speed";
    readonly process: number;
    readonly monotonic: number;
    readonly wall: number;
  };

/** A world and what happens in it. */
export interface Schedule {
  readonly form: Form;
  readonly fetchPlan: "statement" | "transaction";
  /** What a client tells of the clock that a statement used, where it returns nothing. */
  readonly generatedKey: "missing" | "told" | "wrong";
  /** Which rows a client counts: those that were found, or those that were changed. */
  readonly counted: "changed" | "found";
  readonly processes: number;
  readonly limit: number;
  readonly ttlMs: number;
  readonly toleranceMs: number;
  /** -1 is the default. */
  readonly maxAheadMs: number;
  readonly marginMs: number;
  /** Whether a renewal may take nearly until the next, or half of that. */
  readonly patient: boolean;
  /** Whether the rows are there. */
  readonly provisioned: boolean;
  readonly unitMs: number;
  readonly sequenceBits: number;
  /** How far a generator stamps ahead of its clock. */
  readonly idsAheadMs: number;
  readonly format: "bigint" | "number" | "string";
  /** How far the clocks of the processes are off in the beginning. */
  readonly wallOffsets: readonly number[];
  readonly chance: number;
  readonly commands: readonly Command[];
}

const faults: readonly Fault[] = [
  "lost",
  "silent",
  "replyLost",
  "replySilent",
  "slow",
  "late",
  "lateFrozen",
  "lateSilent",
  "waiting",
  "locked",
  "deadlock",
];

const process = fc.nat(3);
const lease = fc.nat(5);
const by = fc.nat(2);
const flag = fc.boolean();

const befalling: fc.Arbitrary<Befalling> = fc.record({
  // Those that have to be let go by another command do nothing without it.
  fault: fc.constantFrom(...faults, "slow", "waiting", "locked", "waiting", "locked"),
  after: fc.constantFrom(0, 0, 1, 1, 2),
});
const maybe = fc.option(befalling, { freq: 2 });

function doing<T extends Command["do"]>(name: T): fc.Arbitrary<T> {
  return fc.constant(name);
}

/** Durations about as long as what the library waits for, and very short ones. */
const duration = fc.oneof(
  { weight: 2, arbitrary: fc.nat(20) },
  { weight: 4, arbitrary: fc.nat(700) },
  { weight: 3, arbitrary: fc.nat(2_500) },
  { weight: 1, arbitrary: fc.nat(6_000) },
);

const jump = fc.oneof(
  { weight: 1, arbitrary: fc.integer({ min: -20, max: 20 }) },
  { weight: 3, arbitrary: fc.integer({ min: -3_000, max: 3_000 }) },
);

const commonly: readonly fc.WeightedArbitrary<Command>[] = [
  {
    weight: 16,
    arbitrary: fc.record({
      do: doing("acquire"),
      process,
      as: fc.constantFrom(
        "ids",
        "ids",
        "ids",
        "background",
        "hold",
        "hold",
        "job",
        "lease",
        "lease",
      ),
      ownKey: fc.constantFrom(true, true, false),
      preferred: fc.integer({ min: -1, max: 3 }),
      suffers: maybe,
    }),
  },
  {
    weight: 12,
    arbitrary: fc.record({
      do: doing("renew"),
      lease,
      copy: fc.nat(5).map((n) => n === 5),
      suffers: maybe,
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      do: doing("release"),
      lease,
      tells: flag,
      copy: fc.nat(7).map((n) => n === 7),
      suffers: maybe,
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: doing("crash"),
      process,
      sameKey: fc.constantFrom(true, true, false),
      returns: flag,
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      do: doing("generator"),
      lease,
      over: fc.constantFrom("hold", "hold", "hold", "hold", "copy", "otherLayout"),
    }),
  },
  {
    weight: 14,
    arbitrary: fc.record({
      do: doing("stamp"),
      lease,
      by,
      count: fc.oneof({ weight: 2, arbitrary: fc.integer({ min: 1, max: 10 }) }, {
        weight: 1,
        arbitrary: fc.integer({ min: 1, max: 100 }),
      }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: doing("next"),
      lease,
      by,
      count: fc.integer({ min: 1, max: 20 }),
    }),
  },
  { weight: 4, arbitrary: fc.record({ do: doing("byHand"), lease, before: fc.nat(3) }) },
  { weight: 5, arbitrary: fc.record({ do: doing("held"), lease, outlasted: flag }) },
  {
    weight: 6,
    arbitrary: fc.record({
      do: doing("fault"),
      process,
      suffers: befalling,
    }),
  },
  { weight: 10, arbitrary: fc.record({ do: doing("late"), index: fc.nat(2) }) },
  {
    weight: 20,
    arbitrary: fc.record({
      do: doing("pass"),
      ms: duration,
      blocked: fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, {
        weight: 1,
        arbitrary: fc.nat(15),
      }),
    }),
  },
];

const astray: readonly fc.WeightedArbitrary<Command>[] = [
  { weight: 3, arbitrary: fc.record({ do: doing("wallJumps"), process, ms: jump }) },
  {
    weight: 3,
    arbitrary: fc.record({
      do: doing("speed"),
      process,
      monotonic: fc.constantFrom(100, 0, 50, 98, 102, 200),
      wall: fc.constantFrom(100, 0, 50, 98, 102, 200),
    }),
  },
];

const storeAstray: fc.WeightedArbitrary<Command> = {
  weight: 5,
  arbitrary: fc.record({ do: doing("storeJumps"), ms: jump }),
};

function world(commands: readonly fc.WeightedArbitrary<Command>[]): fc.Arbitrary<Schedule> {
  return fc.record({
    form: fc.constantFrom("returning", "bound", "bound", "take"),
    fetchPlan: fc.constantFrom("statement", "statement", "transaction"),
    generatedKey: fc.constantFrom("told", "missing", "wrong"),
    counted: fc.constantFrom("found", "changed"),
    processes: fc.integer({ min: 3, max: 4 }),
    limit: fc.integer({ min: 1, max: 4 }),
    ttlMs: fc.constantFrom(1_000, 1_000, 1_500),
    toleranceMs: fc.constantFrom(0, 1, 100, 500, 999),
    maxAheadMs: fc.constantFrom(-1, -1, 0, 500, 5_000),
    marginMs: fc.constantFrom(100, 0, 300),
    patient: flag,
    provisioned: fc.nat(7).map((n) => n < 7),
    unitMs: fc.constantFrom(1, 1, 10, 100, 7),
    sequenceBits: fc.integer({ min: 1, max: 4 }),
    idsAheadMs: fc.constantFrom(1_000, 0, 100, 5_000),
    format: fc.constantFrom("number", "bigint", "string"),
    wallOffsets: fc.array(fc.integer({ min: -2_000, max: 2_000 }), {
      minLength: 4,
      maxLength: 4,
    }),
    chance: fc.nat(999),
    commands: fc.array(fc.oneof(...commands), { minLength: 1, maxLength: 60, size: "max" }),
  });
}

/** All schedules: with clocks that run true, with processes' that do not, and with a store's too. */
export const schedules: fc.Arbitrary<Schedule> = fc.oneof(
  { weight: 1, arbitrary: world(commonly) },
  { weight: 1, arbitrary: world([...commonly, ...astray]) },
  { weight: 1, arbitrary: world([...commonly, ...astray, storeAstray]) },
);

/** A schedule as it is printed: the world, then a line for each of its first commands. */
export function printed({ commands, ...world }: Schedule, steps: number): string {
  const lines = commands.slice(0, steps).map((command) => JSON.stringify(command));
  return [JSON.stringify(world), ...lines].join("\n  ");
}
