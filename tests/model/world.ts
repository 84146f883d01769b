/**
 * A world of processes, a database and their clocks, in which a schedule happens.
 *
 * True time passes only when a command lets it. The store clock and each process's two clocks follow it
 * as fast as they are told to, and jump when they are told to; a timer fires when its process's monotonic
 * clock has come so far, unless the process is blocked.
 *
 * @module
 */

import { setImmediate } from "node:timers";
import type { SnowflakeLayout } from "../../core/id/snowflake_layout.ts";
import { Clocks } from "./clocks.ts";
import type { ModelDatabase } from "./database.ts";
import { layoutOf, Process, type Tenure, type Trusted } from "./process.ts";
import { type Rule, Rules } from "./rules.ts";
import type { Command, Schedule } from "./schedule.ts";

/** A moment on every clock that a process and the database have. */
export interface Moment {
  readonly trueMs: number;
  readonly storeMs: number;
  readonly monotonicMs: number;
  readonly wallMs: number;
}

/** What was done. */
export interface Done {
  readonly steps: number;
  readonly statements: number;
  readonly ids: number;
}

/** When every schedule begins. */
const startMs = 1_700_000_000_000;
const epochMs = startMs - 1_000_000;
/** In one of so many schedules all calls are waited for. */
const oneOf = 16;
/** Longer than any call may take. */
const longestCallMs = 5_500;
/** How many leases commands reach. */
const mostLeases = 6;
/** More timers than any schedule fires while time passes once. */
const mostTimers = 1_000;

/** Where a schedule happens. */
export class World {
  readonly database: ModelDatabase;
  readonly schedule: Schedule;
  readonly rules: Rules;
  readonly layout: SnowflakeLayout;
  /** What the network and the database have not come to yet. */
  readonly waiting: (() => void)[] = [];
  /** What the processes have, in the order in which they got it. */
  tenures: Tenure[] = [];
  /** How many commands there were. */
  step = 0;
  /** How many statements were carried out. */
  statements = 0;
  /** Whether ids are being made without waiting. */
  isStamping = false;
  trueMs = 0;
  #storeOffsetMs = startMs;
  #storeIsTrue = true;
  #unique = 0;
  readonly #processes: Process[] = [];

  /**
   * Makes one.
   *
   * @param database The database, which begins again.
   * @param schedule What is to happen.
   * @param only The rules that count; all do unless given.
   */
  constructor(database: ModelDatabase, schedule: Schedule, only?: readonly Rule[]) {
    this.database = database;
    this.schedule = schedule;
    this.rules = new Rules(only);
    this.layout = layoutOf(schedule, epochMs);
    database.reset(schedule.provisioned ? schedule : undefined);
    for (let index = 0; index < schedule.processes; index++) {
      const wallMs = startMs + (schedule.wallOffsets[index] ?? 0);
      this.#processes.push(this.#start(index, { wallMs, key: `process ${index}` }));
    }
  }

  /** The store clock. */
  get storeMs(): number {
    return this.#storeOffsetMs + this.trueMs;
  }

  /** This moment, as a process and the database see it. */
  moment(clocks: Clocks): Moment {
    const { trueMs, storeMs } = this;
    return { trueMs, storeMs, monotonicMs: clocks.monotonicMs(), wallMs: clocks.wallMs() };
  }

  /** A text that no other is equal to. */
  unique(what: string): string {
    return `${what} ${++this.#unique}`;
  }

  /** By how much something is wrong that is wrong on purpose. */
  astray(): number {
    return ((++this.#unique * 7_919) % 8_001) - 4_000;
  }

  /** Runs the schedule to its end, or to the first rule that is broken, which it throws. */
  async run(): Promise<Done> {
    await this.#settle();
    for (const command of this.schedule.commands) {
      this.step++;
      await this.#do(command);
      await this.#settle();
    }
    this.step++;
    while (this.waiting.length > 0) {
      this.waiting.shift()?.();
      await this.#settle();
    }
    if (this.schedule.chance % oneOf === 0) await this.#outlast();
    return { steps: this.step, statements: this.statements, ids: this.rules.ids };
  }

  #do(command: Command): Promise<void> | undefined | void {
    switch (command.do) {
      case "acquire":
        return this.#process(command).acquire(command);
      case "renew":
        return this.#with(command, (tenure) => tenure.process.renew(tenure, command));
      case "release":
        return this.#with(command, (tenure) => tenure.process.release(tenure, command));
      case "crash":
        return this.#crash(command);
      case "generator":
        return this.#with(command, (tenure) => tenure.process.generate(tenure, command));
      case "stamp":
        this.isStamping = true;
        this.#with(command, (tenure) => tenure.process.stamp(tenure, command));
        this.isStamping = false;
        return;
      case "next":
        return this.#with(command, (tenure) => tenure.process.next(tenure, command));
      case "byHand":
        return this.#with(command, (tenure) => tenure.process.stampByHand(tenure, command));
      case "held":
        return this.#with(command, async (tenure) => {
          const { process } = tenure;
          if (command.outlasted) {
            const blocked = 1 << this.#processes.indexOf(process);
            await this.#pass({ ms: process.trustedForMs(tenure), blocked });
          }
          process.ask(tenure);
        });
      case "fault":
        return this.#process(command).befall(command.suffers);
      case "late":
        this.#letGo(command.index);
        return;
      case "pass":
        return this.#pass(command);
      case "storeJumps":
        this.#storeIsTrue = false;
        this.#storeOffsetMs += command.ms;
        return;
      case "wallJumps":
        return this.#process(command).clocks.jump(command.ms);
      case "speed":
        this.#process(command).clocks.speed = {
          monotonic: command.monotonic / 100,
          wall: command.wall / 100,
        };
        return;
    }
  }

  #with<T>({ lease }: { readonly lease: number }, act: (tenure: Tenure) => T): T | undefined {
    const { length } = this.tenures;
    const tenure = this.tenures[length - 1 - lease % Math.min(mostLeases, length)];
    return tenure && act(tenure);
  }

  #process({ process }: { readonly process: number }): Process {
    const found = this.#processes[process % this.#processes.length];
    if (found === undefined) throw new RangeError(`no process ${process}`);
    return found;
  }

  #start(index: number, { wallMs, key }: { wallMs: number; key: string }): Process {
    const clocks = new Clocks({
      monotonicMs: 1_000 * index + 0.25,
      wallMs,
      chance: this.schedule.chance * 8 + index,
      uuid: () => {
        const incarnation = this.unique("incarnation");
        this.rules.tenancies.set(incarnation, { slot: -1, fence: -1, isLive: () => false });
        return incarnation;
      },
    });
    return new Process(this, { clocks, key });
  }

  /** Lets every call's time pass. */
  async #outlast(): Promise<void> {
    for (const process of this.#processes) {
      process.recover();
      process.clocks.speed = { monotonic: 1, wall: 1 };
    }
    await this.#pass({ ms: longestCallMs, blocked: 0 });
    const pending = this.#processes.reduce((sum, process) => sum + process.pending, 0);
    if (pending > 0) this.rules.broken("errors", `${pending} calls did not end in their time`);
    await this.#settle();
  }

  #letGo(index: number): void {
    const { length } = this.waiting;
    if (length > 0) this.waiting.splice(length - 1 - index % length, 1)[0]?.();
  }

  #crash(command: Extract<Command, { readonly do: "crash" }>): void {
    const { process, sameKey, returns } = command;
    const index = process % this.#processes.length;
    const old = this.#process({ process });
    old.ended = true;
    this.tenures = this.tenures.filter((tenure) => tenure.process !== old);
    const key = sameKey ? old.key : this.unique("restarted process");
    const next = this.#start(index, { wallMs: old.clocks.wallMs(), key });
    this.#processes[index] = next;
    if (!returns) return;
    next.acquire({
      ...{ do: "acquire", process, as: "ids", ownKey: true },
      ...{ preferred: -1, suffers: null },
    });
  }

  async #pass({ ms, blocked }: { readonly ms: number; readonly blocked: number }): Promise<void> {
    const awake = this.#processes.filter((_, index) => (blocked & (1 << index)) === 0);
    let fired = 0;
    for (let leftMs = ms;;) {
      for (const { clocks } of awake) {
        while (clocks.fire()) {
          if (++fired > mostTimers) return this.rules.broken("errors", "a timer fires without end");
          await this.#settle();
        }
      }
      if (leftMs === 0) return;
      const stepMs = Math.min(leftMs, ...awake.map(({ clocks }) => Math.max(1, clocks.dueInMs)));
      this.trueMs += stepMs;
      for (const { clocks } of this.#processes) clocks.pass(stepMs);
      leftMs -= stepMs;
    }
  }

  /** Lets everything run that can, and checks what is believed then. */
  async #settle(): Promise<void> {
    await new Promise<void>((resolve) => void setImmediate(resolve));
    this.#check();
    const { violation } = this.rules;
    if (violation === undefined) return;
    violation.steps = this.step;
    throw violation;
  }

  #check(): void {
    for (const process of this.#processes) process.check();
    if (!this.#storeIsTrue) return;
    const bySlot = new Map<number, Trusted[]>();
    for (const process of this.#processes) {
      for (const trusted of process.trusted()) {
        const others = bySlot.get(trusted.slot);
        if (others === undefined) bySlot.set(trusted.slot, [trusted]);
        else others.push(trusted);
      }
    }
    for (const [slot, all] of bySlot) {
      if (all.length < 2) continue;
      const held = all.filter((one) => one.isHeld() && !one.isExcused());
      if (held.length > 1) this.rules.broken("held", `${held.length} trust slot ${slot}`);
    }
  }
}
