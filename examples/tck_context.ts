import { DatabaseSync } from "node:sqlite";
import { type Dialect, openStore, type Store } from "@fencepost/store";
import { NodeSqliteClient, openStore as openSqlite } from "@fencepost/store/sqlite";
import type { TckContext } from "@fencepost/store/tck";

/** Runs a case of the kit on an empty file, and closes what the case opened. */
export async function runOnSqlite(
  work: (context: TckContext) => Promise<void>,
  { file, dialect }: { file: string; dialect: Dialect },
): Promise<void> {
  const unique = crypto.randomUUID().replaceAll("-", "_");
  const tables = {
    rangeTable: `ranges_${unique}`,
    slotTable: `slots_${unique}`,
    namespaceTable: `namespaces_${unique}`,
  };
  const databases: DatabaseSync[] = [];
  const stores: Store[] = [];
  const keep = (store: Store) => {
    stores.push(store);
    return store;
  };
  const connect = () => {
    const database = new DatabaseSync(file);
    database.exec("pragma journal_mode = wal");
    databases.push(database);
    return database;
  };
  const clientOf = (database: DatabaseSync) => new NodeSqliteClient(database, { opened: false });
  const begin = () => {
    const database = connect();
    database.exec("begin immediate");
    const end = (word: "commit" | "rollback") => {
      if (database.isTransaction) database.exec(word);
      return Promise.resolve();
    };
    return Promise.resolve({
      handle: database,
      session: clientOf(database).session(database),
      open: async (options = {}) =>
        keep(await openSqlite(database, { ...tables, dialects: [dialect], ...options })),
      commit: () => end("commit"),
      rollback: () => end("rollback"),
    });
  };
  const context: TckContext = {
    dialect,
    schema: "main",
    tables,
    client: () => Promise.resolve(clientOf(connect())),
    open: async ({ client = clientOf(connect()), ...options } = {}) =>
      keep(
        await openStore(client, { ...tables, initSchema: true, dialects: [dialect], ...options }),
      ),
    begin,
    inside: begin,
  };
  try {
    await work(context);
  } finally {
    for (const store of stores) await store.close();
    for (const database of databases) database.close();
  }
}
