// @ts-types="npm:@types/pg@^8.23.1"
import pg from "pg";
import { PGlite, type Transaction } from "@electric-sql/pglite";
import mysql from "mysql2";
import mysqlPromise from "mysql2/promise";
import postgres from "postgres";
import { DatabaseSync } from "node:sqlite";
import { assertEquals } from "@std/assert";
import type {
  Mysql2Connection,
  Mysql2OwnPool,
  Mysql2Pool,
  Mysql2PooledConnection,
  Mysql2PromiseConnection,
  Mysql2PromisePool,
  MysqlTarget,
} from "../../dialects/mysql/mod.ts";
import type {
  PgConnection,
  PgliteDatabase,
  PgliteRunner,
  PgPool,
  PgPooledConnection,
  PostgresJsRunner,
  PostgresJsSql,
  PostgresqlTarget,
} from "../../dialects/postgresql/mod.ts";
import type { SqliteDatabase } from "../../dialects/sqlite/mod.ts";

/** Compiles only if `Real` can be given where `Wanted` is taken. */
type Assignable<Wanted, Real extends Wanted> = Real extends Wanted ? true : never;

interface CustomTypes extends Record<string, unknown> {
  bigint: bigint;
  date: Date;
  rectangle: { x: number; y: number };
}

const accepted: readonly [
  Assignable<PostgresJsSql, ReturnType<typeof postgres>>,
  Assignable<PostgresJsSql, postgres.Sql>,
  Assignable<PostgresJsSql, postgres.Sql<{ bigint: bigint }>>,
  Assignable<PostgresJsSql, postgres.Sql<CustomTypes>>,
  Assignable<PostgresJsRunner, postgres.TransactionSql>,
  Assignable<PostgresJsRunner, postgres.TransactionSql<{ bigint: bigint }>>,
  Assignable<PostgresqlTarget, postgres.Sql<{ bigint: bigint }>>,
  Assignable<PgPool, pg.Pool>,
  Assignable<PgConnection, pg.Client>,
  Assignable<PgConnection, pg.PoolClient>,
  Assignable<PgPooledConnection, pg.PoolClient>,
  Assignable<PostgresqlTarget, pg.Pool>,
  Assignable<PostgresqlTarget, pg.Client>,
  Assignable<PgliteDatabase, PGlite>,
  Assignable<PgliteRunner, Transaction>,
  Assignable<PostgresqlTarget, PGlite>,
  Assignable<SqliteDatabase, DatabaseSync>,
  Assignable<Mysql2Pool, mysql.Pool>,
  Assignable<Mysql2OwnPool, mysql.Pool>,
  Assignable<Mysql2Connection, mysql.Connection>,
  Assignable<Mysql2PooledConnection, mysql.PoolConnection>,
  Assignable<Mysql2PromisePool, mysqlPromise.Pool>,
  Assignable<Mysql2PromiseConnection, mysqlPromise.Connection>,
  Assignable<Mysql2PromiseConnection, mysqlPromise.PoolConnection>,
  Assignable<MysqlTarget, mysql.Pool>,
  Assignable<MysqlTarget, mysql.Connection>,
  Assignable<MysqlTarget, mysql.PoolConnection>,
  Assignable<MysqlTarget, mysqlPromise.Pool>,
  Assignable<MysqlTarget, mysqlPromise.Connection>,
] = [
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
  true,
];

/** Compiles only if what postgres.js makes with types of the application's is taken. */
function takesCustomTypes(take: (sql: PostgresJsSql) => void): void {
  const sql = postgres({
    max: 2,
    types: {
      bigint: postgres.BigInt,
      rectangle: {
        to: 1337,
        from: [1337],
        serialize: ({ x, y }: { x: number; y: number }) => [x, y],
        parse: ([x, y]: [number, number]) => ({ x, y }),
      },
    },
  });
  take(sql);
}

Deno.test("the types of the drivers' own objects are accepted", () => {
  assertEquals(accepted.every((yes) => yes), true);
  let taken = 0;
  takesCustomTypes(() => taken++);
  assertEquals(taken, 1);
});

Deno.test("the drivers' own objects are of the types that are asserted", () => {
  assertEquals(typeof pg.Pool, "function");
  assertEquals(typeof PGlite, "function");
  assertEquals(typeof mysql.createPool, "function");
  assertEquals(typeof mysqlPromise.createPool, "function");
  assertEquals(typeof DatabaseSync, "function");
});
