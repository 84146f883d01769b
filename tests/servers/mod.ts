/**
 * Every database that the tests can start.
 *
 * @module
 */
import { pgbouncerServer } from "./pgbouncer.ts";
import { pgliteServer } from "./pglite.ts";
import { postgresqlServer } from "./postgresql.ts";
import type { TestServer } from "./server.ts";
import { sqliteServer } from "./sqlite.ts";

export * from "./server.ts";

/** In the order in which they are named. */
export const servers: readonly TestServer[] = [
  sqliteServer,
  pgliteServer,
  postgresqlServer(),
  pgbouncerServer(),
];
