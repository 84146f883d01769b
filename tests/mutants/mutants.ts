/**
 * Contracts broken on purpose, one at a time. For each at least one case of the tests must fail.
 *
 * @module
 */

/** One contract, and the change of the source that breaks it. */
export interface Mutant {
  /** The contract that it breaks. */
  readonly breaks: string;
  /** The file, from the root of the project. */
  readonly file: string;
  /** The text that is replaced; it stands in the file exactly once. */
  readonly find: string;
  /** What it is replaced by. */
  readonly replace: string;
  /** The tests that find it; those of the core and the compatibility kit unless given. */
  readonly tests?: readonly string[];
}

const rangeStore = "core/range/range_store.ts";
const groupReserve = "core/range/group_reserve.ts";
const postgresql = "dialects/postgresql/dialect.ts";
const sqlite = "dialects/sqlite/dialect.ts";
const pg = "dialects/postgresql/pg.ts";
const postgresJs = "dialects/postgresql/postgres.ts";
const postgresJsPool = "dialects/shared/postgres_js.ts";
const mysql = "dialects/mysql/dialect.ts";
const mysql2 = "dialects/mysql/mysql2.ts";
const mysql2Tests = ["tests/drivers/mysql2_fake_test.ts"];
const nodeSqlite = "dialects/sqlite/node_sqlite.ts";
const mssql = "dialects/sqlserver/mssql.ts";
const mssqlTests = ["tests/drivers/mssql_test.ts"];
const slotAcquire = "core/slot/slot_acquire.ts";
const slotHold = "core/slot/slot_hold.ts";
const slotTests = ["tests/slots/kit_test.ts"];
const holdTests = ["tests/slots/hold_test.ts"];
const snowflakeIds = "core/id/snowflake_ids.ts";
const stampWindow = "core/id/stamp_window.ts";
const idTests = ["tests/slots/snowflake_ids_test.ts"];

/** The mutants. */
export const mutants: readonly Mutant[] = [
  {
    breaks: "a sealed key gives no value (PostgreSQL)",
    file: postgresql,
    find: "where not known.sealed and known.next_value",
    replace: "where known.next_value",
  },
  {
    breaks: "a sealed key gives no value (SQLite)",
    file: sqlite,
    find: "where not known.sealed and known.next_value",
    replace: "where known.next_value",
  },
  {
    breaks: "past 2^63 - 1 nothing is reserved (PostgreSQL)",
    file: postgresql,
    find: "not known.sealed and known.next_value <= ${maxValue - size}",
    replace: "not known.sealed",
  },
  {
    breaks: "past 2^63 - 1 nothing is reserved (SQLite)",
    file: sqlite,
    find: "not known.sealed and known.next_value <= ${maxValue - size}",
    replace: "not known.sealed",
  },
  {
    breaks: "the plan transaction guards what it updates",
    file: rangeStore,
    find: "and sealed = ${false} and next_value <= ${maxValue - size}",
    replace: "and next_value <= ${maxValue - size}",
  },
  {
    breaks: "a reserve gives the values before the one that came back",
    file: rangeStore,
    find: "{ start: next - size, end: next }",
    replace: "{ start: next, end: next + size }",
  },
  {
    breaks: "a new key starts at initialOffset",
    file: sqlite,
    find: "values (${key}, ${initialOffset + size})",
    replace: "values (${key}, ${1n + size})",
  },
  {
    breaks: "a group is split in the order of its calls",
    file: groupReserve,
    find: "    start = end;\n",
    replace: "",
  },
  {
    breaks: "calls with different initialOffset share no statement",
    file: groupReserve,
    find: "call.initialOffset !== initialOffset || size",
    replace: "size",
  },
  {
    breaks: "a sum that would pass 2^63 - 1 is not formed",
    file: groupReserve,
    find: " || size > maxValue - initialOffset",
    replace: "",
  },
  {
    breaks: "a group that meets exhaustion is sent again one by one",
    file: groupReserve,
    find: "error instanceof RangeExhaustedError && group.length > 1",
    replace: "error instanceof RangeExhaustedError && group.length < 1",
  },
  {
    breaks: "a call that ends before its group is sent reserves nothing",
    file: groupReserve,
    find: "if (statement === undefined) lane.splice(lane.indexOf(waiting), 1);",
    replace: "if (statement === undefined) lane.indexOf(waiting);",
  },
  {
    breaks: "two stores share no timer",
    file: "core/sql/database.ts",
    find: "owner: this }",
    replace: "owner: this.runtime }",
    tests: ["tests/core/store_options_test.ts"],
  },
  {
    breaks: "a group whose calls have all left holds up no other",
    file: groupReserve,
    find: "if (--left === 0) resolve();",
    replace: "if (--left < 0) resolve();",
    tests: ["tests/core/group_reserve_test.ts"],
  },
  {
    breaks: "a group has until the latest deadline of its calls",
    file: groupReserve,
    find: "Math.max(latest, call.deadline.atMs), 0)",
    replace: "Math.min(latest, call.deadline.atMs), Infinity)",
  },
  {
    breaks: "a value that went backwards partly hands out nothing",
    file: rangeStore,
    find: "lowest: (this.#highest.get(key) ?? 0n) + size,",
    replace: "lowest: size,",
  },
  {
    breaks: "a value below the size hands out nothing",
    file: rangeStore,
    find: "lowest: (this.#highest.get(key) ?? 0n) + size,",
    replace: "lowest: (this.#highest.get(key) ?? -1_000n) + size,",
  },
  {
    breaks: "only an end that was received before the statement was sent counts",
    file: rangeStore,
    find: "const { request: { key, size }, lowest } = sent;",
    replace:
      "const { request: { key, size } } = sent; const lowest = (this.#highest.get(key) ?? 0n) + size;",
  },
  {
    breaks: "seal keeps the value",
    file: rangeStore,
    find: "set sealed = ${true}\n",
    replace: "set sealed = ${true}, next_value = 1\n",
  },
  {
    breaks: "advance never lowers the next value",
    file: rangeStore,
    find: "where range_key = ${key} and sealed = ${false} and next_value < ${nextValue}",
    replace: "where range_key = ${key} and sealed = ${false}",
  },
  {
    breaks: "the reason is read from the primary",
    file: rangeStore,
    find: "const statement = this.#select(key, lockRow);",
    replace: "const statement = this.#select(key);",
  },
  {
    breaks: "a row answers the reserve that it was asked for",
    file: "core/sql/dialect.ts",
    find: ' || row.bigint("nonce") !== nonce',
    replace: "",
  },
  {
    breaks: "no two reserves have one nonce",
    file: rangeStore,
    find: "nonce: ++this.#nonce }",
    replace: "nonce: this.#nonce }",
  },
  {
    breaks: "the text of a read contains the clock",
    file: rangeStore,
    find: "select next_value, sealed, ${this.#database.dialect.nowMillis} as now_ms",
    replace: "select next_value, sealed",
  },
  {
    breaks: "texts are remembered by the identifiers that they contain",
    file: "core/sql/statement.ts",
    find: "else if (part instanceof Identifier) found = child(found, part);",
    replace: "else if (part instanceof Identifier) continue;",
  },
  {
    breaks: "texts are remembered by which parts are bound",
    file: "core/sql/statement.ts",
    find: "found = child(found, markers[typeOf(part)]);",
    replace: "",
  },
  {
    breaks: "texts are remembered by the types of what is bound",
    file: "core/sql/statement.ts",
    find: "markers[typeOf(part)]",
    replace: "markers.null",
  },
  {
    breaks: "identifiers are quoted",
    file: "core/sql/statement.ts",
    find: 'return `"${name}"`;',
    replace: "return name;",
  },
  {
    breaks: "a statement whose outcome is unknown is never repeated",
    file: "core/sql/dialect.ts",
    find: 'return kind === "deadlock" || kind === "serialization";',
    replace: 'return kind !== "other";',
  },
  {
    breaks: "repeating has a bound",
    file: "core/retry.ts",
    find: "attempt < maxAttempts;",
    replace: "attempt <= maxAttempts;",
  },
  {
    breaks: "a call ends by its deadline, also when the driver never settles",
    file: "core/sql/database.ts",
    find: 'const waiter = deadline.onOver(() => reject(deadline.error(name, "unknown")));',
    replace: "const waiter = deadline.onOver(() => {});",
  },
  {
    breaks: "callers who were given their ranges share the next statement",
    file: groupReserve,
    find: "const callersTurns = 32;",
    replace: "const callersTurns = 0;",
  },
  {
    breaks: "a key holds no NUL",
    file: "core/arguments.ts",
    find: 'if (text.includes("\\0"))',
    replace: 'if (text.includes("\\0\\0"))',
  },
  {
    breaks: "an unsafe number is refused, not rounded",
    file: "core/arguments.ts",
    find: '"bigint" && !Number.isSafeInteger(value)',
    replace: '"bigint" && !Number.isInteger(value)',
  },
  {
    breaks: "initSchema is safe when many start at once",
    file: "core/sql/schema.ts",
    find: 'if (!(error instanceof StoreError && error.kind === "duplicate")) throw error;',
    replace: "throw error;",
  },
  {
    breaks: "a transaction that failed is rolled back (SQLite)",
    file: nodeSqlite,
    find: "if (this.#database.isTransaction) this.#run(rollback);",
    replace: "",
  },
  {
    breaks: "no statement runs inside a transaction of the application's (SQLite)",
    file: nodeSqlite,
    find: "while (this.#database.isTransaction) {",
    replace: "while (false) {",
  },
  {
    breaks: "what was passed in is never closed (SQLite)",
    file: nodeSqlite,
    find: "if (this.#opened) this.#database.close();",
    replace: "this.#database.close();",
  },
  {
    breaks: "a connection in an unknown state is not used again (pg)",
    file: pg,
    find: "connection.release(!clean);",
    replace: "connection.release(false);",
    tests: ["tests/drivers/pg_test.ts"],
  },
  {
    breaks: "no statement runs inside a transaction of the application's (pg)",
    file: pg,
    find: "if (isOpen(held.connection)) throw inTransaction(options.name);",
    replace: "",
    tests: ["tests/drivers/pg_test.ts"],
  },
  {
    breaks: "the application's transaction is not committed by one of ours (pg)",
    file: pg,
    find: "while (options.warned.of(alreadyBegun));",
    replace: "while (options.warned.of(nothingBegun));",
    tests: ["tests/drivers/pg_test.ts"],
  },
  {
    breaks: "a transaction that missed its deadline is rolled back (postgres.js)",
    file: postgresJs,
    find: "        deadline.check(name);\n" +
      "        const sent = this.send(transaction, statement).catch((error) => {\n" +
      "          gone ||= endsConnection(error);\n          throw error;\n        });\n" +
      "        return deadline.race(name, sent);",
    replace: "        return this.send(transaction, statement);",
  },
  {
    breaks: "a commit that the server turned into a rollback is no success (postgres.js)",
    file: postgresJs,
    find: "const { command } = await send(commitAndChain);",
    replace: 'const command = commitAndChain && "COMMIT";',
    tests: ["tests/drivers/postgres_transactions_test.ts"],
  },
  {
    breaks: "inside a transaction that has written nothing is reserved (PostgreSQL)",
    file: postgresql,
    find: "where txid_current_if_assigned() is null\n      on conflict",
    replace: "where true\n      on conflict",
    tests: ["tests/drivers/postgres_transactions_test.ts"],
  },
  {
    breaks: "values are bound past the application's serializers (postgres.js)",
    file: postgresJsPool,
    find: "transform.value.from === undefined;",
    replace: "transform !== undefined;",
    tests: ["tests/drivers/postgres_test.ts"],
  },
  {
    breaks: "columns are read by the names that the statement gave (postgres.js)",
    file: postgresJsPool,
    find: "this.#rename?.(name) ?? name",
    replace: "name",
    tests: ["tests/drivers/postgres_test.ts"],
  },
  {
    breaks: "what was passed in is never closed (postgres.js)",
    file: postgresJsPool,
    find: "if (this.#opened) await this.sql.end",
    replace: "await this.sql.end",
  },
  {
    breaks: "a failed connection is told in a later turn (postgres.js)",
    file: postgresJsPool,
    find: "if (!isFromServer(error)) await",
    replace: "if (isFromServer(error)) await",
    tests: ["tests/drivers/postgres_transactions_test.ts"],
  },
  {
    breaks: "a statement that met somebody's transaction is refused (mssql)",
    file: mssql,
    find: "if (result.refused) throw inTransaction(name);",
    replace: "",
    tests: mssqlTests,
  },
  {
    breaks: "a statement is cancelled at its deadline (mssql)",
    file: mssql,
    find: "deadline.onOver(() => void request.cancel())",
    replace: "deadline.onOver(() => {})",
    tests: mssqlTests,
  },
  {
    breaks: "the pool's requestTimeout has no say (mssql)",
    file: mssql,
    find: "const noTimeout = { requestTimeout: 0 };",
    replace: "const noTimeout = {};",
    tests: mssqlTests,
  },
  {
    breaks: "rows are arrays, whatever the pool's setting is (mssql)",
    file: mssql,
    find: "request.arrayRowMode = true;",
    replace: "",
    tests: mssqlTests,
  },
  {
    breaks: "rows are no events, whatever the pool's setting is (mssql)",
    file: mssql,
    find: "request.stream = false;",
    replace: "",
    tests: mssqlTests,
  },
  {
    breaks: "of several results the last one counts (mssql)",
    file: mssql,
    find: "(answer.recordsets as unknown[][][]).at(-1)",
    replace: "(answer.recordsets as unknown[][][]).at(0)",
    tests: mssqlTests,
  },
  {
    breaks: "integers are bound without loss (mssql)",
    file: mssql,
    find: "this.#types.integer, BigInt(value)",
    replace: "this.#types.integer, Number(value)",
    tests: mssqlTests,
  },
  {
    breaks: "texts of all lengths share a plan (mssql)",
    file: mssql,
    find: "value.length <= longestText ? longestText : anyLength",
    replace: "value.length <= longestText ? value.length : anyLength",
    tests: mssqlTests,
  },
  {
    breaks: "a transaction keeps the session's isolation level (mssql)",
    file: mssql,
    find: "transaction.isolationLevel = keepIsolation;",
    replace: "",
    tests: mssqlTests,
  },
  {
    breaks: "a transaction that begins too late is rolled back (mssql)",
    file: mssql,
    find: "beginning.then(() => rollBack(transaction), () => {});",
    replace: "",
    tests: mssqlTests,
  },
  {
    breaks: "the application's transaction is not rolled back by the store (mssql)",
    file: mssql,
    find: "await transaction.commit().catch(() => {});",
    replace: "await rollBack(transaction);",
    tests: mssqlTests,
  },
  {
    breaks: "a connection whose rollback failed is not used again (mssql)",
    file: mssql,
    find: "if (!aborted) connection?.close();",
    replace: "",
    tests: mssqlTests,
  },
  {
    breaks: "a valueHandler that changes what is read is refused (mssql)",
    file: mssql,
    find: "    refuseChanged(row);\n",
    replace: "",
    tests: mssqlTests,
  },
  {
    breaks: "a pool that the library opened does not end the process (mssql)",
    file: mssql,
    find: 'if (this.#opened) pool.on("error", () => {});',
    replace: "",
    tests: mssqlTests,
  },
  {
    breaks: "what was passed in is never closed (mssql)",
    file: mssql,
    find: "    if (!this.#opened) return;\n",
    replace: "",
    tests: mssqlTests,
  },
  {
    breaks: "a row that stays as it is generates no key (MySQL)",
    file: mysql,
    find: "next_value + cast(last_insert_id(0) as signed)",
    replace: "next_value",
    tests: mysql2Tests,
  },
  {
    breaks: "a sealed key gives no value (MySQL)",
    file: mysql,
    find: "when sealed = 0 and next_value <=",
    replace: "when next_value <=",
    tests: mysql2Tests,
  },
  {
    breaks: "past 2^63 - 1 nothing is reserved (MySQL)",
    file: mysql,
    find: "when sealed = 0 and next_value <= ${maxValue - size}",
    replace: "when sealed = 0",
    tests: mysql2Tests,
  },
  {
    breaks: "integers are computed without loss on MariaDB (MySQL)",
    file: mysql,
    find: 'boundInteger = "cast(? as signed)"',
    replace: 'boundInteger = "?"',
    tests: mysql2Tests,
  },
  {
    breaks: "a generated key of 0 is none (MySQL)",
    file: mysql,
    find: "value > 0n && ",
    replace: "",
    tests: mysql2Tests,
  },
  {
    breaks: "a generated key answers the reserve that it was made for (MySQL)",
    file: mysql,
    find: "tagged(value, tag) === bits ? value",
    replace: "value < tagRoom || value === bits ? value",
    tests: mysql2Tests,
  },
  {
    breaks: "a write inside the application's transaction hands nothing out (mysql2)",
    file: mysql2,
    find: "          } else if (isInTransaction(answer)) {\n            held.end(false);",
    replace:
      "          } else if (isInTransaction(answer) && !this.#prepare) {\n            held.end(false);",
    tests: mysql2Tests,
  },
  {
    breaks: "a transaction does not commit the application's (mysql2)",
    file: mysql2,
    find: "      await this.#waitOut(held, options);\n      try {",
    replace: "      try {",
    tests: mysql2Tests,
  },
  {
    breaks: "a transaction that a proxy did not keep hands nothing out (mysql2)",
    file: mysql2,
    find: "if (!isInTransaction(answer)) throw new NotKeptError(options.name);",
    replace: "",
    tests: mysql2Tests,
  },
  {
    breaks: "a transaction whose commit went elsewhere hands nothing out (mysql2)",
    file: mysql2,
    find: "if (isInTransaction(ended)) throw new NotKeptError(options.name);",
    replace: "",
    tests: mysql2Tests,
  },
  {
    breaks: "after a lock wait a transaction is rolled back (mysql2)",
    file: mysql2,
    find: "this.#answer(held, rollback).then",
    replace: "this.#answer(held, probe).then",
    tests: mysql2Tests,
  },
  {
    breaks: "a connection whose rollback failed is not used again (mysql2)",
    file: mysql2,
    find: "if (!isUndone || error instanceof NotKeptError) held.end(false);",
    replace: "",
    tests: mysql2Tests,
  },
  {
    breaks: "at its deadline a connection is destroyed (mysql2)",
    file: mysql2,
    find: "deadline.onOver(() => this.end(false))",
    replace: "deadline.onOver(() => this.end(true))",
    tests: mysql2Tests,
  },
  {
    breaks: "a connection is put back once (mysql2)",
    file: mysql2,
    find: "    if (this.#ended) return;\n",
    replace: "",
    tests: mysql2Tests,
  },
  {
    breaks: "a connection that comes too late is put back (mysql2)",
    file: mysql2,
    find: "        connection.release();\n        return taken",
    replace: "        return taken",
    tests: mysql2Tests,
  },
  {
    breaks: "a connection whose character set was changed is refused (mysql2)",
    file: mysql2,
    find: "      this.#refuseCharset(connection);\n",
    replace: "",
    tests: mysql2Tests,
  },
  {
    breaks: "autocommit = 0 is refused (mysql2)",
    file: mysql2,
    find: 'if (!row.boolean("autocommit")) {',
    replace: 'if (row.isNull("autocommit")) {',
    tests: mysql2Tests,
  },
  {
    breaks: "a queryFormat that changes texts is refused (mysql2)",
    file: mysql2,
    find: "        refuseFormat(connection, literal);\n",
    replace: "",
    tests: mysql2Tests,
  },
  {
    breaks: "on a single connection a write is sent again once a transaction has ended (mysql2)",
    file: mysql2,
    find: "if (!isInTransaction(answer)) return answer;",
    replace: "return answer;",
    tests: mysql2Tests,
  },
  {
    breaks:
      "an acquire takes nothing while the namespace is another than was asked for (PostgreSQL)",
    file: postgresql,
    find: "where txid_current_if_assigned() is null and ${settled}",
    replace: "where txid_current_if_assigned() is null",
    tests: slotTests,
  },
  {
    breaks: "inside a transaction that has written no lease is written (PostgreSQL)",
    file: postgresql,
    find: "select ${this.nowMillis} as now_ms where txid_current_if_assigned() is null\n",
    replace: "select ${this.nowMillis} as now_ms\n",
    tests: ["tests/drivers/postgres_transactions_test.ts"],
  },
  {
    breaks: "nobody takes a slot before a transaction that asserted it has ended",
    file: "core/sql/dialect.ts",
    find: "readonly shareRow: RowLock = { clause: sql` for share` };",
    replace: "readonly shareRow: RowLock = {};",
    tests: slotTests,
  },
  {
    breaks: "a step with an unknown outcome is read again, never skipped",
    file: slotAcquire,
    find: "        failures++;\n        break;",
    replace: "        failures++;",
    tests: slotTests,
  },
  {
    breaks: "a slot that this acquire has already is used",
    file: slotAcquire,
    find: "if (view.mine !== undefined) return view.mine;",
    replace: "",
    tests: slotTests,
  },
  {
    breaks: "another limit or tolerance is refused",
    file: slotAcquire,
    find: "if (is.limit !== limit || is.toleranceMs !== toleranceMs) {",
    replace: "if (is.limit !== limit) {",
    tests: slotTests,
  },
  {
    breaks: "a namespace that lacks rows is completed",
    file: slotAcquire,
    find: 'provisioned < limit ? "slots" : undefined',
    replace: 'provisioned < 1 ? "slots" : undefined',
    tests: slotTests,
  },
  {
    breaks: "the answer to another statement confirms no lease",
    file: "core/slot/slot_rows.ts",
    find: 'row === undefined || (row.has("nonce") && row.bigint("nonce") === nonce)',
    replace: 'row === undefined || row.has("nonce")',
    tests: slotTests,
  },
  {
    breaks: "a slot that was used too far ahead of the clock is not taken",
    file: "core/slot/slot_statements.ts",
    find: "slot < ${limit} and next_floor_ms <= ${now} + ${maxAheadMs}",
    replace: "slot < ${limit} and next_floor_ms <= ${now} + ${maxAheadMs} * 1000",
    tests: slotTests,
  },
  {
    breaks: "an owner's own slot comes first, then the preferred one",
    file: "core/slot/slot_statements.ts",
    find: "when owner_key = ${ownerKey} then 1",
    replace: "when owner_key = ${ownerKey} then 3",
    tests: slotTests,
  },
  {
    breaks: "a hold asks the clocks, and not only its timer",
    file: slotHold,
    find: "  get held(): boolean {\n    this.#check();",
    replace: "  get held(): boolean {",
    tests: holdTests,
  },
  {
    breaks: "the wall clock is asked whether the machine slept",
    file: slotHold,
    find: "if (this.#parts.runtime.wallMs() < this.#trustedUntilWallMs) return true;",
    replace: "if (this.#parts.runtime.wallMs() < Infinity) return true;",
    tests: holdTests,
  },
  {
    breaks: "a hold keeps no process alive",
    file: slotHold,
    find: "    this.#timer.unref?.();\n",
    replace: "",
    tests: holdTests,
  },
  {
    breaks: "one failed renewal is repeated",
    file: slotHold,
    find: "      this.#renewAtMs = nowMs + delayMs;\n",
    replace: "      this.#renewAtMs = Infinity;\n",
    tests: holdTests,
  },
  {
    breaks: "trust that has run out is not given back",
    file: slotHold,
    find: "    // Trust that has run out meanwhile is not given back.\n    this.#check();\n",
    replace: "",
    tests: holdTests,
  },
  {
    breaks: "a lease whose server is read-only is lost",
    file: slotHold,
    find: 'if (error instanceof StoreError && error.kind === "readOnly") this.#lose("readOnly");',
    replace: "",
    tests: holdTests,
  },
  {
    breaks: "the repeat of a release says the same last use",
    file: slotHold,
    find: "this.#lastUse ??= { ms",
    replace: "this.#lastUse = { ms",
    tests: holdTests,
  },
  {
    breaks: "only units that lie wholly inside the window are stamped",
    file: snowflakeIds,
    find: "if (epochMs + (unit + 1) * unitMs - 1 > window.ceilingMs) return false;",
    replace: "if (epochMs + unit * unitMs > window.ceilingMs) return false;",
    tests: idTests,
  },
  {
    breaks: "the first unit lies wholly inside the window",
    file: snowflakeIds,
    find: "Math.ceil((lease.floorMs - layout.epochMs) / layout.unitMs)",
    replace: "Math.floor((lease.floorMs - layout.epochMs) / layout.unitMs)",
    tests: idTests,
  },
  {
    breaks: "the last use covers the whole unit",
    file: stampWindow,
    find: "layout.epochMs + (unit + 1) * layout.unitMs - 1",
    replace: "layout.epochMs + unit * layout.unitMs",
    tests: idTests,
  },
  {
    breaks: "a fast host does not run away from the store clock",
    file: snowflakeIds,
    find: "Math.min(hostUnit, cap)",
    replace: "hostUnit",
    tests: idTests,
  },
  {
    breaks: "a generator runs ahead of its clock only so far",
    file: snowflakeIds,
    find: "if (unit > Math.max(clock, storeUnit) + ahead) return false;",
    replace: "",
    tests: idTests,
  },
  {
    breaks: "no id overflows the bits for the time",
    file: snowflakeIds,
    find: "if (unit > this.#lastUnit) throw new IdsExhaustedError(this.exhaustsAt);",
    replace: "",
    tests: idTests,
  },
  {
    breaks: "two layouts cannot share a hold",
    file: snowflakeIds,
    find: "if (!sameLayout(known, layout)) {",
    replace: "if (false) {",
    tests: idTests,
  },
];
