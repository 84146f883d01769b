/**
 * Opens a store over a client: picks the dialect that speaks to the server, creates what is missing
 * if asked, checks that the tables are there, and reports what weakens its promises. The tables of slots
 * may be missing as long as no slot is used.
 *
 * @module
 */

import {
  checkBoolean,
  checkOneOf,
  checkOptions,
  checkSignal,
  checkTimeout,
  refuse,
} from "./arguments.ts";
import { ConfigurationError, SchemaError, StoreError } from "./errors.ts";
import { emit, type EventListener } from "./events.ts";
import { type FetchPlan, RangeStore } from "./range/range_store.ts";
import {
  type HeldSnowflakeIdsOptions,
  type IdFormat,
  openSnowflakeIds,
  type SnowflakeIds,
  type SnowflakeIdsOptions,
} from "./id/snowflake_ids.ts";
import { type Deadline, type Runtime, systemRuntime } from "./runtime.ts";
import { SlotStore } from "./slot/slot_store.ts";
import type { Client, ServerInfo } from "./sql/client.ts";
import { Database } from "./sql/database.ts";
import { Dialect } from "./sql/dialect.ts";
import { prepareSchema } from "./sql/schema.ts";
import { type TableOptions, type Tables, tablesOf } from "./sql/tables.ts";

/** The options of `openStore`. */
export interface StoreOptions extends TableOptions {
  /** The dialect to use instead of asking the server: one of those known, by name, or one given. */
  dialect?: string | Dialect;
  /** Dialects to try before the built-in ones. */
  dialects?: readonly Dialect[];
  /**
   * Creates the tables, columns and indexes that are missing. Safe when many processes start at once.
   *
   * @default {false}
   */
  initSchema?: boolean;
  /**
   * How a reserve, or a read that a later write depends on, reaches the database.
   *
   * @default {"statement"}
   */
  fetchPlan?: FetchPlan;
  /**
   * Whether reserves of one key that wait for each other share a statement.
   *
   * @default {true}
   */
  groupReserve?: boolean;
  /**
   * How long a call may take unless it says otherwise, in milliseconds, from 1 to 2,147,483,647.
   *
   * @default {5000}
   */
  timeoutMs?: number;
  /** Ends the opening early; it rejects with the signal's reason. */
  signal?: AbortSignal;
  /** Receives what happens in the store, for logs and metrics. */
  onEvent?: EventListener;
  /** Time and chance, for tests. */
  runtime?: Runtime;
}

/** The names of the options that every `openStore` takes. */
export const storeOptionNames: readonly string[] = [
  "dialect",
  "dialects",
  "initSchema",
  "rangeTable",
  "slotTable",
  "namespaceTable",
  "fetchPlan",
  "groupReserve",
  "timeoutMs",
  "signal",
  "onEvent",
  "runtime",
];

const defaultTimeoutMs = 5_000;

/**
 * An open store. Its parts share the client, the dialect and the options.
 *
 * @example
 * ```ts
 * import { openStore } from "@fencepost/store";
 *
 * await using store = await openStore("sqlite::memory:", { initSchema: true });
 * console.log(store.dialect); // "sqlite"
 * ```
 */
export class Store implements AsyncDisposable {
  /** Id ranges. */
  readonly ranges: RangeStore;
  /** Slot leases. */
  readonly slots: SlotStore;
  /** The name of the dialect that is used. */
  readonly dialect: string;
  /** What the server said it is. */
  readonly server: ServerInfo;
  readonly #database: Database;
  readonly #warnings: readonly string[];

  /** Used by `openStore`. */
  constructor(
    database: Database,
    parts: {
      ranges: RangeStore;
      slots: SlotStore;
      server: ServerInfo;
      warnings: readonly string[];
    },
  ) {
    this.#database = database;
    this.ranges = parts.ranges;
    this.slots = parts.slots;
    this.dialect = database.dialect.name;
    this.server = parts.server;
    this.#warnings = parts.warnings;
  }

  /**
   * What about the server or its tables weakens what the store promises, each a sentence; empty if
   * nothing was found.
   */
  get warnings(): readonly string[] {
    return [...this.#warnings];
  }

  /**
   * Opens a generator of snowflake ids: with a hold of its own, which it takes and releases, or over a
   * hold that is given.
   *
   * @param options The namespace and the terms of the hold, or the hold; and how ids are made.
   * @throws {SlotsExhaustedError} If no slot is free; it tells when the next one is.
   * @throws {NamespaceConflictError} If the namespace has another limit or tolerance.
   * @throws {TimeoutError} If it did not end in time.
   * @throws {StoreError} If the database or the driver failed.
   * @throws {SchemaError} If a table is missing, or lacks a column.
   * @throws {InvalidArgumentError} If an option is not allowed; nothing was sent.
   */
  snowflakeIds<F extends IdFormat = "bigint">(
    options: SnowflakeIdsOptions<F> | HeldSnowflakeIdsOptions<F>,
  ): Promise<SnowflakeIds<F>> {
    return openSnowflakeIds(options, {
      hold: (terms) => this.slots.hold(terms),
      wallMs: () => this.#database.runtime.wallMs(),
    });
  }

  /**
   * Ends the use of the store; later calls are refused. Releases the holds that are left, as far as the
   * database can be reached. Closes the connection only if the library opened it, from a URL: what was
   * passed in stays open. Idempotent.
   */
  async close(): Promise<void> {
    await this.#database.close(this.slots.releaseAll());
  }

  /** The same as `close`, for `await using`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

/**
 * Opens a store over a client.
 *
 * @param client The driver adapter. It is closed if this fails; only an adapter that opened its
 * connection itself does anything then.
 * @param options The options, and the dialects that come with the library.
 */
export async function openStoreOver(
  client: Client,
  options: StoreOptions & { builtIn: readonly Dialect[] },
): Promise<Store> {
  try {
    return await open(client, options);
  } catch (error) {
    // Not awaited: a driver that never answers would hold up the error.
    client.close().catch(() => {});
    throw error;
  }
}

/** Checks the options that every `openStore` takes, and that there are no others. */
export function checkStoreOptions(
  options: unknown,
  moreNames: readonly string[] = [],
): asserts options is StoreOptions {
  const action = "open store";
  checkOptions(action, options, [...storeOptionNames, ...moreNames]);
  const { initSchema, groupReserve, fetchPlan, timeoutMs, signal, onEvent, runtime } =
    options as StoreOptions;
  const { dialect, dialects } = options as StoreOptions;
  checkBoolean(action, "initSchema", initSchema);
  checkBoolean(action, "groupReserve", groupReserve);
  checkOneOf(action, fetchPlan, { name: "fetchPlan", allowed: ["statement", "transaction"] });
  checkTimeout(action, timeoutMs);
  checkSignal(action, signal);
  if (onEvent !== undefined && typeof onEvent !== "function") {
    refuse(action, "onEvent must be a function", onEvent);
  }
  if (runtime !== undefined && !isRuntime(runtime)) {
    refuse(action, "runtime must be a Runtime", runtime);
  }
  if (dialect !== undefined && typeof dialect !== "string" && !(dialect instanceof Dialect)) {
    refuse(action, "dialect must be a name or a Dialect", dialect);
  }
  if (
    dialects !== undefined &&
    !(Array.isArray(dialects) && dialects.every((item) => item instanceof Dialect))
  ) refuse(action, "dialects must be an array of Dialect", dialects);
  tablesOf(options as StoreOptions);
}

function isRuntime(value: Runtime): boolean {
  return (["wallMs", "monotonicMs", "setTimer", "random", "uuid"] as const)
    .every((name) => typeof value?.[name] === "function");
}

async function open(
  client: Client,
  options: StoreOptions & { builtIn: readonly Dialect[] },
): Promise<Store> {
  const { builtIn, ...rest } = options;
  checkStoreOptions(rest);
  const { runtime = systemRuntime, onEvent, timeoutMs = defaultTimeoutMs } = rest;
  if (rest.fetchPlan === "transaction" && client.transaction === undefined) {
    refuse("open store", "this driver has no transactions, use the plan statement", rest.fetchPlan);
  }
  const known = [...(rest.dialects ?? []), ...builtIn];
  const named = chosen(known, rest.dialect);
  const tables = tablesOf(rest);

  // Until the server has said what it is, errors are classified by the first dialect of the family.
  const first = named ?? known[0];
  if (first === undefined) refuse("open store", "there must be a dialect", rest.dialects);
  const asking = new Database(client, { dialect: first, runtime, onEvent, timeoutMs });
  const deadline = asking.deadline({ signal: rest.signal });
  const call = { name: "open.server", deadline };
  const server = await asking.run(() => client.server(call), call);
  const dialect = named ?? known.find((candidate) => candidate.supports(server));
  if (dialect === undefined) throw unsupported(server, known);

  const database = new Database(client, { dialect, runtime, onEvent, timeoutMs });
  const create = rest.initSchema ?? false;
  const warnings: string[] = [];
  const warn = (messages: readonly string[]) => {
    for (const message of messages) {
      if (warnings.includes(message)) continue;
      warnings.push(message);
      if (onEvent) emit(onEvent, { type: "warning", message });
    }
  };
  const inexact = await prepareSchema(database, {
    schemas: dialect.schema("range", tables),
    create,
    deadline,
  });
  const withSlots = await hasSlots(database, { tables, create, deadline, warn });
  const session = database.session({ name: "open.settings", deadline });
  warn(await dialect.weaknesses(session, withSlots ? tables : { range: tables.range }));
  warn(inexact);
  const fetchPlan = rest.fetchPlan ?? "statement";
  const ranges = new RangeStore(database, {
    table: tables.range,
    fetchPlan,
    groupReserve: rest.groupReserve ?? true,
  });
  const slots = new SlotStore(database, {
    tables,
    fetchPlan,
    prepare: withSlots ? undefined : async (deadline) => {
      const schemas = dialect.schema("slot", tables);
      warn(await prepareSchema(database, { schemas, create, deadline }));
      warn(await dialect.weaknesses(database.session({ name: "slot.settings", deadline }), tables));
    },
  });
  return new Store(database, { ranges, slots, server, warnings });
}

/** Whether the tables of slots are there; they are created if asked. */
async function hasSlots(
  database: Database,
  { tables, create, deadline, warn }: {
    tables: Tables;
    create: boolean;
    deadline: Deadline;
    warn: (messages: readonly string[]) => void;
  },
): Promise<boolean> {
  const schemas = database.dialect.schema("slot", tables);
  try {
    warn(await prepareSchema(database, { schemas, create, deadline }));
    return true;
  } catch (error) {
    // Who uses no slots needs no tables of them, and no privilege; who does is told then.
    if (error instanceof SchemaError && !create) return false;
    if (error instanceof StoreError && ["permission", "readOnly"].includes(error.kind)) {
      return false;
    }
    throw error;
  }
}

function chosen(known: readonly Dialect[], choice: string | Dialect | undefined) {
  if (typeof choice !== "string") return choice;
  const found = known.find((dialect) => dialect.name === choice);
  if (found === undefined) {
    const names = [...new Set(known.map((dialect) => dialect.name))].join(", ");
    refuse("open store", `dialect must be one of ${names}`, choice);
  }
  return found;
}

function unsupported(server: ServerInfo, known: readonly Dialect[]): ConfigurationError {
  const names = known.map((dialect) => dialect.name).join(", ");
  return new ConfigurationError(
    `Cannot open store: none of the dialects ${names} supports the server: received ` +
      `${server.product} ${server.version}`,
  );
}
