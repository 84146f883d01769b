/**
 * SQLite over `node:sqlite`.
 *
 * @module
 */

import type { StoreOptions } from "../../mod.ts";
import { NodeSqliteClient, openStore, sqliteDialect } from "../../dialects/sqlite/mod.ts";
import type { Connected, Driver, Drivers } from "./driver.ts";

/** In this process. */
export const sqlite: Drivers = (url) => [driver(url)];

function driver(url: string): Driver {
  const connect = async (): Promise<Connected> => {
    const { DatabaseSync } = await import("node:sqlite");
    const database = new DatabaseSync(url.slice("sqlite:".length));
    database.exec("pragma journal_mode = wal");
    const client = new NodeSqliteClient(database, { opened: false });
    const begin = () => {
      database.exec("begin immediate");
      const end = (word: "commit" | "rollback") => Promise.resolve(database.exec(word));
      const open = (options?: StoreOptions) => openStore(database, options);
      return Promise.resolve({
        handle: database,
        session: client.session(database),
        open,
        commit: () => end("commit"),
        rollback: () => end("rollback"),
      });
    };
    return { client, begin, end: () => Promise.resolve(database.close()) };
  };
  return { dialect: sqliteDialect, schema: "main", connect };
}
