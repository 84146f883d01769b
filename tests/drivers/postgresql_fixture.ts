/**
 * PostgreSQL as the tests of its drivers use it: a table of their own, a connection past the proxy,
 * and a driver by what the shared rules need of it.
 *
 * @module
 */

import postgres from "postgres";
import type { PostgresqlOptions, PostgresqlTarget } from "../../dialects/postgresql/mod.ts";
import { askedServers } from "../servers/asked.ts";
import { until } from "../servers/until.ts";
import { tablesBeside, uniqueName } from "./ranges.ts";

/** How a pool is made. */
export interface PoolSettings {
  /** How many connections it may open. */
  readonly max?: number;
  /** What its sessions are set to, from their start. */
  readonly session?: Readonly<Record<string, string>>;
}

/** A pool of the application's. */
export interface ApplicationPool extends AsyncDisposable {
  /** What a store is opened on. */
  readonly target: Exclude<PostgresqlTarget, string>;
  /** Runs a statement of the application's. */
  run(text: string): Promise<readonly Readonly<Record<string, unknown>>[]>;
}

/** A driver, as the rules that hold for every driver use it. */
export interface PostgresqlDriver {
  /** The name of its package. */
  readonly name: string;
  /** How many turns a reserve takes. */
  readonly turns: { readonly first: number; readonly warm: number; readonly unprepared: number };
  /** What the proxy reads when a connection commits that has done so before. */
  readonly commit: string;
  /** Makes a pool. */
  open(url: string, settings?: PoolSettings): ApplicationPool;
}

/** A server, and names that no other test uses. */
export interface PostgresqlFixture extends AsyncDisposable {
  /** The server, as its superuser. */
  readonly url: string;
  /** The table of ranges; it and those of slots are dropped at the end. */
  readonly table: string;
  /** What the sessions of the application call themselves. */
  readonly application: string;
  /** Names the tables and creates them. */
  readonly options: PostgresqlOptions;
  /** Connections that are no part of what is tested. */
  readonly admin: postgres.Sql;
  /** What the table holds for a key. */
  nextValue(key: string): Promise<bigint | undefined>;
  /** Waits until so many sessions of the application wait for a lock. */
  waiting(count: number): Promise<void>;
  /** Waits until no session of the application is inside a transaction or waits for a lock. */
  idle(): Promise<void>;
  /** Creates the table as the library does. */
  createTable(): Promise<void>;
  /** Creates a role with a password that may log in; dropped at the end. */
  role(password: string): Promise<string>;
}

/** The PostgreSQL servers that run. */
export const postgresqlServers = askedServers().filter(({ name }) => name.startsWith("postgresql"));

/** Makes a fixture on a server. */
export function openFixture(url: string): PostgresqlFixture {
  const admin = postgres(url, {
    max: 4,
    fetch_types: false,
    onnotice: () => {},
    types: { bigint: postgres.BigInt },
  });
  const table = uniqueName("t");
  const tables = tablesBeside(table);
  const application = uniqueName("app");
  const roles: string[] = [];
  const sessions = () =>
    admin`
      select pid, state, wait_event_type from pg_stat_activity
      where application_name = ${application}
    `;
  return {
    url,
    table,
    application,
    admin,
    options: { ...tables, initSchema: true },
    async nextValue(key) {
      const [row] = await admin`select next_value from ${admin(table)} where range_key = ${key}`;
      return row?.next_value;
    },
    async waiting(count) {
      await until(async () => {
        const rows = await sessions();
        return rows.filter((row) => row.wait_event_type === "Lock").length === count || undefined;
      }, { what: `${count} sessions to wait for a lock` });
    },
    async idle() {
      await until(async () => {
        const rows = await sessions();
        const busy = rows.filter((row) => row.wait_event_type === "Lock" || row.state !== "idle");
        return busy.length === 0 || undefined;
      }, { what: "the sessions to be idle" });
    },
    async createTable() {
      await admin`
        create table ${admin(table)} (
          range_key varchar(255) collate "C" not null primary key,
          next_value bigint not null,
          sealed boolean not null default false
        )
      `;
    },
    async role(password) {
      const name = uniqueName("role");
      await admin.unsafe(`create role "${name}" login password '${password}'`);
      roles.push(name);
      return name;
    },
    async [Symbol.asyncDispose]() {
      for (const one of Object.values(tables)) await admin`drop table if exists ${admin(one)}`;
      for (const role of roles) await admin.unsafe(`drop role "${role}"`);
      await admin.end();
    },
  };
}

/** A lock on a row, held by a session of its own. */
export interface HeldLock extends AsyncDisposable {
  /** The number of an advisory lock that the session holds too. */
  readonly advisory: number;
  /** Ends the session's transaction, and so all of its locks. */
  free(): Promise<void>;
}

/** Locks the row of a key, and an advisory lock, in a session of its own. */
export async function lockRow(fixture: PostgresqlFixture, key: string): Promise<HeldLock> {
  const { url, table } = fixture;
  const advisory = Math.floor(Math.random() * 2 ** 31);
  const session = postgres(url, { max: 1, fetch_types: false });
  await session`begin`;
  await session`select from ${session(table)} where range_key = ${key} for update`;
  await session`select pg_advisory_xact_lock(${advisory})`;
  let freed: Promise<void> | undefined;
  const free = () =>
    freed ??= (async () => {
      await session`rollback`;
      await session.end();
    })();
  return { advisory, free, [Symbol.asyncDispose]: free };
}

/** The URL with another user, and the application's name. */
export function urlOf(
  fixture: PostgresqlFixture,
  change: { user?: string; password?: string; base?: string } = {},
): string {
  const url = new URL(change.base ?? fixture.url);
  if (change.user !== undefined) {
    url.username = change.user;
    url.password = change.password ?? "";
  }
  return url.href;
}
