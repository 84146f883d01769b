/**
 * PGlite.
 *
 * @module
 */

import type { PGlite } from "@electric-sql/pglite";
import { openStore, PgliteClient, postgresqlDialect } from "../../dialects/postgresql/mod.ts";
import { type Connected, type Driver, type Drivers, openTransaction } from "./driver.ts";

/** In this process. */
export const pglite: Drivers = (url) => [driver(url)];

/** PGlite has one connection, and takes seconds to start: all cases share it. */
function driver(url: string): Driver {
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
            handle: transaction,
            session: client.session(transaction),
            open: (options) => openStore(database, options),
          })
        )
      );
    return { client, begin, end: () => Promise.resolve() };
  };
  return { dialect: postgresqlDialect, schema: "public", connect };
}
