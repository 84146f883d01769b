/**
 * MySQL and MariaDB as the tests of their driver use them: a table and a user of their own, and
 * connections past the proxy.
 *
 * @module
 */

import { createPool as createCallbackPool, type Pool as CallbackPool } from "mysql2";
import {
  createConnection,
  createPool,
  type Pool,
  type PoolOptions,
  type RowDataPacket,
} from "mysql2/promise";
import { type MysqlOptions, type MysqlTarget, openStore } from "../../dialects/mysql/mod.ts";
import { askedServers } from "../servers/asked.ts";
import { until } from "../servers/until.ts";
import { tablesBeside, uniqueName } from "./ranges.ts";
import { assertExact } from "./stores.ts";

/** A server, and names that no other test uses. */
export interface MysqlFixture extends AsyncDisposable {
  /** The name of the database: "mysql" or "mariadb". */
  readonly dialect: string;
  /** The collation of texts in tables of the library. */
  readonly collation: string;
  /** The server, as a user of the test's own who may do everything with tables. */
  readonly uri: string;
  /** That user. */
  readonly user: string;
  /** The table of ranges; it and those of slots are dropped at the end. */
  readonly table: string;
  /** Names the tables and creates them. */
  readonly options: MysqlOptions;
  /** Runs a statement of the superuser's, on connections that are no part of what is tested. */
  admin(text: string): Promise<RowDataPacket[]>;
  /** What the table holds for a key. */
  nextValue(key: string): Promise<bigint | undefined>;
  /** Waits until so many statements of the test's user wait for a lock. */
  waiting(count: number): Promise<void>;
  /** Waits until no session of the test's user is inside a transaction. */
  idle(): Promise<void>;
  /** Ends a statement that waits for a lock, or its connection. */
  killWaiting(what?: "connection" | "query"): Promise<void>;
  /** Creates the table as the library does, or with another text of its key or its end. */
  createTable(parts?: { key?: string; more?: string; end?: string }): Promise<void>;
  /** Creates a user with privileges on the table of ranges; dropped at the end. Returns the URL. */
  userWith(privileges: string | undefined, password?: string): Promise<string>;
  /** Creates a user with privileges on all of the tables, who must be there; dropped at the end. */
  userWithSlots(privileges: string): Promise<string>;
  /** Sets a global variable; it is set back at the end. */
  setGlobal(name: string, value: string): Promise<void>;
}

/** The servers of MySQL and MariaDB that run. */
export const mysqlServers = askedServers().filter(({ url }) => /^(mysql|mariadb):/.test(url));

/** Registers a test for each server. */
export function testEach(rule: string, body: (fixture: MysqlFixture) => Promise<void>): void {
  for (const { name, url } of mysqlServers) {
    Deno.test(`${name} › ${rule}`, async () => {
      await using fixture = await openFixture(url);
      await body(fixture);
    });
  }
}

/** Makes a fixture on a server. */
async function openFixture(url: string): Promise<MysqlFixture> {
  const dialect = url.startsWith("mariadb:") ? "mariadb" : "mysql";
  const rootUri = url.replace(/^mariadb:/, "mysql:");
  const pool = createPool({ uri: rootUri, connectionLimit: 4, supportBigNumbers: true });
  const admin = async (text: string) => (await pool.query<RowDataPacket[]>(text))[0];
  const [seen] = await admin("select substring_index(user(), '@', -1) as host, database() as name");
  const table = uniqueName("t");
  const tables = tablesBeside(table);
  const collation = dialect === "mariadb" ? "utf8mb4_nopad_bin" : "utf8mb4_0900_bin";
  const accounts: string[] = [];
  const globals = new Map<string, string>();

  const createUser = async (granted: readonly string[], password = "") => {
    const user = uniqueName("u");
    const account = `'${user}'@'${seen?.host}'`;
    await admin(`create user ${account} identified by '${password}'`);
    accounts.push(account);
    for (const privileges of granted) await admin(`grant ${privileges} to ${account}`);
    const uri = new URL(rootUri);
    uri.username = user;
    uri.password = password;
    return { user, uri: uri.href };
  };
  const { user, uri } = await createUser([`all on \`${seen?.name}\`.*`]);
  /** Its transactions. The table of them is renewed only when nobody has read it for a while. */
  const transactions = async () => {
    const [row] = await admin("show engine innodb status");
    return String(row?.Status).split("---TRANSACTION ").slice(1)
      .filter((text) => text.includes(` ${user} `) && !/^\d+, not started/.test(text));
  };
  return {
    dialect,
    collation,
    uri,
    user,
    table,
    admin,
    options: { ...tables, initSchema: true },
    async nextValue(key) {
      const [rows] = await pool.execute<RowDataPacket[]>(
        `select next_value from \`${table}\` where range_key = ?`,
        [key],
      );
      return rows[0] && BigInt(rows[0].next_value);
    },
    async waiting(wanted) {
      await until(async () => {
        const waiting = (await transactions()).filter((text) => text.includes("LOCK WAIT"));
        return waiting.length === wanted || undefined;
      }, { what: `${wanted} statements to wait for a lock` });
    },
    async idle() {
      await until(async () => (await transactions()).length === 0 || undefined, {
        what: "the sessions to be outside of transactions",
      });
    },
    async killWaiting(what = "connection") {
      const [waiting] = (await transactions()).filter((text) => text.includes("LOCK WAIT"));
      await admin(`kill ${what} ${/thread id (\d+)/.exec(waiting ?? "")?.[1]}`);
    },
    async createTable({ key, more = "", end = "engine = InnoDB" } = {}) {
      const type = key ??
        `varchar(255) character set utf8mb4 collate ${collation} not null primary key`;
      await admin(
        `create table \`${table}\` (range_key ${type}, next_value bigint not null, ` +
          `sealed boolean not null default false${more}) ${end}`,
      );
    },
    async userWith(privileges, password) {
      const granted = privileges === undefined ? [] : [`${privileges} on \`${table}\``];
      return (await createUser(granted, password)).uri;
    },
    async userWithSlots(privileges) {
      const granted = Object.values(tables).map((one) => `${privileges} on \`${one}\``);
      return (await createUser(granted)).uri;
    },
    async setGlobal(name, value) {
      const [row] = await admin(`select @@global.${name} as value`);
      globals.set(name, globals.get(name) ?? String(row?.value));
      await admin(`set global ${name} = ${value}`);
    },
    async [Symbol.asyncDispose]() {
      for (const [name, value] of globals) await admin(`set global ${name} = ${value}`);
      for (const one of Object.values(tables)) await admin(`drop table if exists \`${one}\``);
      for (const account of accounts) await admin(`drop user ${account}`);
      await pool.end();
    },
  };
}

/** Runs something with a pool of the application's, with promises. */
export async function withPool<T>(
  uri: string,
  settings: PoolOptions,
  body: (pool: Pool) => Promise<T>,
): Promise<T> {
  const pool = createPool({ uri, ...settings });
  try {
    return await body(pool);
  } finally {
    await pool.end();
  }
}

/** Runs something with a pool of the application's, with callbacks. */
export async function withCallbackPool<T>(
  uri: string,
  body: (pool: CallbackPool) => Promise<T>,
): Promise<T> {
  const pool = createCallbackPool({ uri });
  try {
    return await body(pool);
  } finally {
    await new Promise<void>((resolve) => pool.end(() => resolve()));
  }
}

/** Runs something with stores on two pools whose sessions begin with a statement. */
export async function withSessions<T>(
  fixture: MysqlFixture,
  statement: string,
  body: (pools: readonly [Pool, Pool]) => Promise<T>,
): Promise<T> {
  return await withPool(fixture.uri, {}, (first) =>
    withPool(fixture.uri, {}, async (second) => {
      for (const pool of [first, second]) {
        // Queued before what the pool is asked for.
        pool.pool.on("connection", (connection) => void connection.query(statement));
      }
      return await body([first, second]);
    }));
}

/** A lock on a row, held by a session of its own. */
export interface HeldLock extends AsyncDisposable {
  /** Ends the session's transaction, and so all of its locks. */
  free(): Promise<void>;
}

/** Locks the row of a key in a session of its own. */
export async function lockRow(fixture: MysqlFixture, key: string): Promise<HeldLock> {
  const session = await createConnection({ uri: fixture.uri });
  await session.beginTransaction();
  await session.execute(
    `select range_key from \`${fixture.table}\` where range_key = ? for update`,
    [key],
  );
  let freed: Promise<void> | undefined;
  const free = () =>
    freed ??= (async () => {
      await session.rollback();
      await session.end();
    })();
  return { free, [Symbol.asyncDispose]: free };
}

/** Fails unless stores in both plans, prepared and not, read and write exactly on a pool. */
export async function assertExactInAllWays(
  target: MysqlTarget,
  options: MysqlOptions,
): Promise<void> {
  for (const fetchPlan of ["statement", "transaction"] as const) {
    for (const prepare of [true, false]) {
      const store = await openStore(target, { ...options, fetchPlan, prepare });
      await assertExact(store, `${fetchPlan}, prepare ${prepare}`);
    }
  }
}
