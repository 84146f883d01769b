/**
 * Every database that the tests can use: those that can be started, and those of the environment
 * that run already (see running.ts).
 *
 * @module
 */
import { h2Server } from "./h2.ts";
import { mariadbServer, runningMariadb } from "./mariadb.ts";
import { mysqlServer, runningMysql } from "./mysql.ts";
import { pgbouncerServer } from "./pgbouncer.ts";
import { pgliteServer } from "./pglite.ts";
import { postgresqlServer, runningPostgresql } from "./postgresql.ts";
import type { TestServer } from "./server.ts";
import { sqliteServer } from "./sqlite.ts";
import { sqlserverServer } from "./sqlserver.ts";

export * from "./server.ts";

const startable: readonly TestServer[] = [
  sqliteServer,
  pgliteServer,
  postgresqlServer({ major: 15 }),
  postgresqlServer({ major: 18 }),
  pgbouncerServer(),
  mysqlServer,
  mariadbServer,
  h2Server,
];

const running = await Promise.all([
  runningPostgresql(),
  runningMysql(),
  runningMariadb(),
  sqlserverServer(),
]);

/** In the order in which they are named; a server that runs already stands for its namesake. */
export const servers: readonly TestServer[] = [
  ...new Map(
    [...startable, ...running]
      .filter((server) => server !== undefined)
      .map((server) => [server.name, server]),
  ).values(),
];
