/**
 * Runs a case of the compatibility kit on a database under one driver.
 *
 * @module
 */

import {
  Deadline,
  Identifier,
  openStore,
  sql,
  type Store,
  type StoreOptions,
  systemRuntime,
} from "../../mod.ts";
import type { TckContext, TckOpenOptions } from "../tck/mod.ts";
import type { Begun, Connected, Driver } from "./driver.ts";

/** Runs a case with tables of its own, and removes all that it left. */
export async function runOn(
  driver: Driver,
  work: (context: TckContext) => Promise<void>,
): Promise<void> {
  const { dialect, schema, connect } = driver;
  const opened: Connected[] = [];
  const stores: Store[] = [];
  const transactions: Begun[] = [];
  const unique = crypto.randomUUID().replaceAll("-", "_");
  const tables = {
    rangeTable: `ranges_${unique}`,
    slotTable: `slots_${unique}`,
    namespaceTable: `namespaces_${unique}`,
  };

  const connected = async (): Promise<Connected> => {
    const connection = await connect();
    opened.push(connection);
    return connection;
  };
  const begin = async (): Promise<Begun> => {
    const begun = await (await connected()).begin();
    let ended: Promise<void> | undefined;
    const transaction = {
      ...begun,
      async open(options: StoreOptions = {}) {
        const store = await begun.open({ ...tables, ...options });
        stores.push(store);
        return store;
      },
      commit: () => ended ??= begun.commit(),
      rollback: () => ended ??= begun.rollback(),
    };
    transactions.push(transaction);
    return transaction;
  };
  const context: TckContext = {
    dialect,
    schema,
    tables,
    client: async () => (await connected()).client,
    async open({ client, ...options }: TckOpenOptions = {}) {
      const store = await openStore(client ?? await context.client(), {
        ...tables,
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
    const call = { name: "drop", deadline: new Deadline(systemRuntime, { timeoutMs: 30_000 }) };
    for (const [option, name] of Object.entries(tables)) {
      const table = Identifier.parse(name, option);
      await client.query(sql`drop table if exists ${table}`, call);
    }
    for (const store of stores) await store.close();
    for (const connection of opened) await connection.end();
  }
}
