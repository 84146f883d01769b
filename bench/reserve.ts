/**
 * The suite `reserve`: how many ranges a second callers get, beside the driver alone.
 *
 * | candidate           | what a caller does                                         | keys         |
 * | ------------------- | ---------------------------------------------------------- | ------------ |
 * | `fencepost`         | `store.ranges.reserve`, with group reserve off             | one a caller |
 * | `bare`              | sends the same statement by the driver alone               | one a caller |
 * | `transaction`       | an update and a select in a transaction, as CosId 3 did    | one a caller |
 * | `fencepost-grouped` | `store.ranges.reserve` as it comes, with group reserve     | one for all  |
 * | `bare-hot-key`      | as `bare`                                                  | one for all  |
 *
 * Each candidate has a pool of its own, with the driver's default settings: how a pool spreads
 * statements over its connections depends on what was sent on it before.
 *
 * @module
 */

import type { Statement, Store, StoreOptions } from "../mod.ts";
import type { Candidate } from "./harness.ts";
import type { BenchConnection, BenchDriver, Take } from "./drivers/mod.ts";
import type { Suite } from "./suite.ts";
import { dropTables, rangeTable as table, tableOptions } from "./tables.ts";

/** How many ids a reserve takes. */
const size = 100;

/** Opens the suite over a driver; its tables are dropped in the end. */
export async function openReserveSuite(driver: BenchDriver, url: string): Promise<Suite> {
  const connections: BenchConnection[] = [];
  const connect = async () => {
    const connection = await driver.connect(url);
    connections.push(connection);
    return connection;
  };
  const first = await connect();
  const dispose = async () => {
    try {
      await dropTables(first);
    } finally {
      await Promise.all(connections.map((connection) => connection[Symbol.asyncDispose]()));
    }
  };
  try {
    const candidates = [
      ours("fencepost", await openStore(await connect(), { groupReserve: false }), ownKeys),
      bare("bare", await connect(), ownKeys),
      transaction("transaction", await connect(), await openStore(first)),
      ours("fencepost-grouped", await openStore(await connect()), hotKey),
      bare("bare-hot-key", await connect(), hotKey),
    ];
    return {
      operation: `reserve ${size} ids`,
      candidates,
      comparisons: [
        { candidate: "fencepost", reference: "bare" },
        { candidate: "fencepost", reference: "transaction" },
        { candidate: "fencepost-grouped", reference: "bare-hot-key" },
      ],
      // On PostgreSQL a row that is updated at this rate becomes slower to find within seconds, also
      // after a vacuum.
      beforeRun: () => first.empty(table),
      [Symbol.asyncDispose]: dispose,
    };
  } catch (error) {
    await dispose();
    throw error;
  }
}

function openStore(connection: BenchConnection, options: StoreOptions = {}): Promise<Store> {
  return connection.openStore({ ...tableOptions, initSchema: true, ...options });
}

/** The keys of a run's callers: new ones, since the table was emptied. */
type Keys = (callers: number) => readonly string[];

let runs = 0;

function ownKeys(callers: number): readonly string[] {
  const run = ++runs;
  return Array.from({ length: callers }, (_, caller) => `run-${run}-caller-${caller}`);
}

function hotKey(callers: number): readonly string[] {
  return new Array(callers).fill(`run-${++runs}`);
}

function ours(name: string, store: Store, keysOf: Keys): Candidate {
  return {
    name,
    prepare(callers) {
      const keys = keysOf(callers);
      return Promise.resolve(async (caller) =>
        (await store.ranges.reserve(keys[caller]!, size)).end
      );
    },
  };
}

function bare(name: string, connection: BenchConnection, keysOf: Keys): Candidate {
  return {
    name,
    async prepare(callers) {
      const takes: Take[] = [];
      for (const key of keysOf(callers)) {
        const take = connection.bare(await reserveStatement(connection, key));
        // The library repeats what two callers can do to each other who both insert the row.
        await take();
        takes.push(take);
      }
      return (caller) => takes[caller]!();
    },
  };
}

/** The statement that the library sends. */
async function reserveStatement({ dialect }: BenchConnection, key: string): Promise<Statement> {
  const sent: Statement[] = [];
  const session = {
    query(statement: Statement) {
      sent.push(statement);
      return Promise.resolve({ rows: [], affected: 0 });
    },
  };
  await dialect.reserve(session, { table, key, size: BigInt(size), initialOffset: 1n, nonce: 1n });
  const [statement] = sent;
  if (statement === undefined || sent.length > 1) {
    throw new TypeError(`Cannot measure ${dialect.name}: a reserve is not one statement`);
  }
  return statement;
}

function transaction(name: string, connection: BenchConnection, store: Store): Candidate {
  return {
    name,
    async prepare(callers) {
      const takes: Take[] = [];
      for (const key of ownKeys(callers)) {
        await store.ranges.advance(key, 1);
        takes.push(connection.transaction({ table, key, size }));
      }
      return (caller) => takes[caller]!();
    },
  };
}
