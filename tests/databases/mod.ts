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

import { askedServers } from "../servers/asked.ts";
import type { TckContext } from "../tck/mod.ts";
import { runOn } from "./context.ts";
import type { Drivers } from "./driver.ts";
import { h2 } from "./h2.ts";
import { mariadb, mysql } from "./mysql.ts";
import { pglite } from "./pglite.ts";
import { pgbouncer, postgresql } from "./postgresql.ts";
import { sqlite } from "./sqlite.ts";
import { sqlserver } from "./sqlserver.ts";

/** A database under one driver. */
export interface Database {
  /** The database alone: "postgresql-15". */
  readonly server: string;
  /** The database without its version: "postgresql". */
  readonly family: string;
  /** The driver, where the database has several. */
  readonly driver: string | undefined;
  /** The database, and the driver where it has several: "postgresql-15 (pg)". */
  readonly name: string;
  /** Runs a case on it. */
  run(work: (context: TckContext) => Promise<void>): Promise<void>;
}

/** By the name of a server without its version. */
const families: Readonly<Record<string, Drivers>> = {
  h2,
  mariadb,
  mysql,
  pgbouncer,
  pglite,
  postgresql,
  sqlite,
  sqlserver,
};

/** The databases that this run has, each under every driver. */
export function databases(): readonly Database[] {
  return askedServers().flatMap(({ name, url }) => {
    const family = name.replace(/-[\d.]+$/, "");
    return (families[family]?.(url) ?? []).map((driver) => ({
      server: name,
      family,
      driver: driver.name,
      name: databaseName(name, driver.name),
      run: (work: (context: TckContext) => Promise<void>) => runOn(driver, work),
    }));
  });
}

/** How a database is named together with what it is used through: "postgresql-15 (pg, node 20)". */
export function databaseName(server: string, ...through: readonly (string | undefined)[]): string {
  const named = through.filter((one) => one !== undefined);
  return named.length === 0 ? server : `${server} (${named.join(", ")})`;
}
