/**
 * H2, over `postgres`.
 *
 * @module
 */

import {
  h2Dialect,
  H2PostgresJsClient,
  openStore,
  type PostgresJsSql,
} from "../../dialects/h2/mod.ts";
import { anything, type Connected, type Driver, type Drivers, openTransaction } from "./driver.ts";

/** Over its server of the PostgreSQL protocol. */
export const h2: Drivers = (url) => [driver(url)];

function driver(url: string): Driver {
  const connect = async (): Promise<Connected> => {
    const { default: postgres } = await import("postgres");
    const address = url.replace(/^h2:/, "postgres:");
    const pool = postgres(address, { max: 4, fetch_types: false, onnotice: () => {} });
    const client = new H2PostgresJsClient(pool, { opened: false, exclusive: false, prepare: true });
    const begin = () =>
      openTransaction((hold) =>
        pool.begin((transaction) =>
          hold({
            handle: transaction,
            session: client.session(transaction),
            open: (options) => openStore(anything<PostgresJsSql>(transaction), options),
          })
        )
      );
    return { client, begin, end: () => pool.end({ timeout: 1 }) };
  };
  return { dialect: h2Dialect, schema: "public", connect };
}
