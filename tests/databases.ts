/**
 * The databases of a test run, each under every driver that it has, as contexts for the
 * compatibility kit.
 *
 * Every case has tables of its own. What a case opened is closed when it has ended, whatever its
 * outcome, and its tables are dropped. A driver is loaded when a case first needs it, for not every
 * runtime has every one. Of the library only its entries are imported, so that the same contexts
 * serve the package as npm installs it.
 *
 * @module
 */

import type { PGlite } from "@electric-sql/pglite";
// @ts-types="npm:@types/pg@^8.15.0"
import type pg from "pg";
import {
  type Client,
  Deadline,
  type Dialect,
  Identifier,
  openStore,
  sql,
  type Store,
  type StoreOptions,
  systemRuntime,
} from "../mod.ts";
import {
  openStore as openPostgresql,
  PgClient,
  PgliteClient,
  PostgresJsClient,
  type PostgresJsSql,
  postgresqlDialect,
} from "../dialects/postgresql/mod.ts";
import {
  NodeSqliteClient,
  openStore as openSqlite,
  sqliteDialect,
} from "../dialects/sqlite/mod.ts";
import { askedServers } from "./servers/asked.ts";
import type { TckContext, TckInside, TckOpenOptions, TckTransaction } from "./tck/mod.ts";

/** An open transaction of the application's, and how a store is opened inside it. */
type Begun = TckTransaction & TckInside;

/** A connection, or a pool of them, that the application has. */
interface Connected {
  readonly client: Client;
  /** Begins a transaction of the application's. */
  begin(): Promise<Begun>;
  /** Closes it as the application would. */
  end(): Promise<void>;
}

/** A database under one driver. */
export interface Database {
  /** The database alone: "postgresql-15". */
  readonly server: string;
  /** The driver, where the database has several. */
  readonly driver: string | undefined;
  /** The database, and the driver where it has several: "postgresql-15 (pg)". */
  readonly name: string;
  /** Runs a case on it. */
  run(work: (context: TckContext) => Promise<void>): Promise<void>;
}

interface Driver {
  readonly dialect: Dialect;
  readonly schema: string;
  connect(): Promise<Connected>;
}

/** The databases that this run has, each under every driver. */
export function databases(): readonly Database[] {
  return askedServers().flatMap(({ name, url }) => {
    const family = name.replace(/-\d+$/, "");
    return (drivers[family]?.(url) ?? []).map(({ name: driver, ...connection }) => ({
      server: name,
      driver,
      name: databaseName(name, driver),
      run: (work: (context: TckContext) => Promise<void>) => runOn(connection, work),
    }));
  });
}

/** How a database is named together with what it is used through: "postgresql-15 (pg, node 20)". */
export function databaseName(server: string, ...through: readonly (string | undefined)[]): string {
  const named = through.filter((one) => one !== undefined);
  return named.length === 0 ? server : `${server} (${named.join(", ")})`;
}

type Drivers = readonly (Driver & { readonly name?: string })[];

const drivers: Readonly<Record<string, (url: string) => Drivers>> = {
  postgresql: (url) => [
    { name: "postgres", ...postgresJs(url) },
    { name: "pg", ...nodePostgres(url) },
  ],
  pglite: (url) => [pglite(url)],
  sqlite: (url) => [sqlite(url)],
};

function postgresJs(url: string): Driver {
  const connect = async (): Promise<Connected> => {
    const { default: postgres } = await import("postgres");
    const pool = postgres(url, { max: 4, onnotice: () => {} });
    const client = new PostgresJsClient(pool, { opened: false, exclusive: false, prepare: true });
    const begin = () =>
      openTransaction((hold) =>
        pool.begin((transaction) =>
          hold({
            session: client.session(transaction),
            open: (options) => openPostgresql(anything<PostgresJsSql>(transaction), options),
          })
        )
      );
    return { client, begin, end: () => pool.end({ timeout: 1 }) };
  };
  return { dialect: postgresqlDialect, schema: "public", connect };
}

function nodePostgres(url: string): Driver {
  const connect = async (): Promise<Connected> => {
    const { default: { Pool } }: { default: typeof pg } = await import("pg");
    const pool = new Pool({ connectionString: url, max: 4 });
    const client = new PgClient(pool, {
      exclusive: false,
      prepare: true,
    });
    const begin = async () => {
      const connection = await pool.connect();
      await connection.query("begin");
      const rollback = async () => {
        await connection.query("rollback");
        connection.release();
      };
      const open = (options?: StoreOptions) =>
        openPostgresql(connection, { ...options, exclusive: true });
      return { session: client.session(connection), open, rollback };
    };
    return { client, begin, end: () => pool.end() };
  };
  return { dialect: postgresqlDialect, schema: "public", connect };
}

/** PGlite has one connection, and takes seconds to start: all cases share it. */
function pglite(url: string): Driver {
  let shared: Promise<PGlite> | undefined;
  const start = async () => {
    const { PGlite } = await import("@electric-sql/pglite");
    return await PGlite.create(url.slice("pglite:".length));
  };
  const connect = async (): Promise<Connected> => {
    const database = await (shared ??= start());
    const client = new PgliteClient(database, { opened: false });
    const begin = () =>
      openTransaction((hold) =>
        database.transaction((transaction) =>
          hold({
            session: client.session(transaction),
            open: (options) => openPostgresql(database, options),
          })
        )
      );
    return { client, begin, end: () => Promise.resolve() };
  };
  return { dialect: postgresqlDialect, schema: "public", connect };
}

function sqlite(url: string): Driver {
  const connect = async (): Promise<Connected> => {
    const { DatabaseSync } = await import("node:sqlite");
    const database = new DatabaseSync(url.slice("sqlite:".length));
    database.exec("pragma journal_mode = wal");
    const client = new NodeSqliteClient(database, { opened: false });
    const begin = () => {
      database.exec("begin immediate");
      const rollback = () => Promise.resolve(database.exec("rollback"));
      const open = (options?: StoreOptions) => openSqlite(database, options);
      return Promise.resolve({ session: client.session(database), open, rollback });
    };
    return { client, begin, end: () => Promise.resolve(database.close()) };
  };
  return { dialect: sqliteDialect, schema: "main", connect };
}

/** Holds open a transaction whose driver runs it in a callback. */
async function openTransaction(
  run: (hold: (inside: Omit<Begun, "rollback">) => Promise<never>) => Promise<unknown>,
): Promise<Begun> {
  const undo = new Error("rolled back as the test asked");
  return await new Promise((resolve, reject) => {
    const ended = run((inside) =>
      new Promise((_, rollBack) => {
        resolve({
          ...inside,
          async rollback() {
            rollBack(undo);
            await ended.catch((error) => {
              if (error !== undo) throw error;
            });
          },
        });
      })
    );
    ended.catch(reject);
  });
}

async function runOn(driver: Driver, work: (context: TckContext) => Promise<void>): Promise<void> {
  const { dialect, schema, connect } = driver;
  const opened: Connected[] = [];
  const stores: Store[] = [];
  const transactions: Begun[] = [];
  const rangeTable = `ranges_${crypto.randomUUID().replaceAll("-", "_")}`;

  const connected = async (): Promise<Connected> => {
    const connection = await connect();
    opened.push(connection);
    return connection;
  };
  const begin = async (): Promise<Begun> => {
    const begun = await (await connected()).begin();
    const transaction = {
      ...begun,
      async open(options: StoreOptions = {}) {
        const store = await begun.open({ rangeTable, ...options });
        stores.push(store);
        return store;
      },
      rollback: once(() => begun.rollback()),
    };
    transactions.push(transaction);
    return transaction;
  };
  const context: TckContext = {
    dialect,
    schema,
    tables: { rangeTable },
    client: async () => (await connected()).client,
    async open({ client, ...options }: TckOpenOptions = {}) {
      const store = await openStore(client ?? await context.client(), {
        rangeTable,
        initSchema: true,
        dialects: [dialect],
        ...options,
      });
      stores.push(store);
      return store;
    },
    begin,
    inside: begin,
  };
  try {
    await work(context);
  } finally {
    for (const transaction of transactions) await transaction.rollback();
    const { client } = await connected();
    const table = Identifier.parse(rangeTable, "rangeTable");
    const call = { name: "drop", deadline: new Deadline(systemRuntime, { timeoutMs: 30_000 }) };
    await client.query(sql`drop table if exists ${table}`, call);
    for (const store of stores) await store.close();
    for (const connection of opened) await connection.end();
  }
}

/** A value of any type, where the types of the library would not let it pass. */
function anything<T>(value: unknown): T {
  return value as T;
}

function once(work: () => Promise<void>): () => Promise<void> {
  let done: Promise<void> | undefined;
  return () => done ??= work();
}
