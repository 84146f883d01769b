import { assert, assertEquals, assertGreater, assertInstanceOf, assertRejects } from "@std/assert";
import { openStore } from "../../dialects/mysql/mod.ts";
import {
  ConfigurationError,
  ReserveConflictError,
  SchemaError,
  type Store,
  StoreError,
} from "../../mod.ts";
import {
  assertExactInAllWays,
  lockRow,
  type MysqlFixture,
  testEach,
  withPool,
  withSessions,
} from "./mysql_fixture.ts";
import { assertContiguous, settles, sorted, uniqueName } from "./ranges.ts";
import { assertExact, assertExactRanges, assertExactSlots, assertStoreError } from "./stores.ts";

const plans = ["statement", "transaction"] as const;

const modes = [
  "",
  "ANSI",
  "ANSI_QUOTES",
  "NO_BACKSLASH_ESCAPES",
  "NO_BACKSLASH_ESCAPES,ANSI_QUOTES,PIPES_AS_CONCAT",
  "PIPES_AS_CONCAT",
  "HIGH_NOT_PRECEDENCE",
  "IGNORE_SPACE",
  "NO_UNSIGNED_SUBTRACTION",
  "REAL_AS_FLOAT",
  "PAD_CHAR_TO_FULL_LENGTH",
  "NO_AUTO_VALUE_ON_ZERO",
  "TRADITIONAL",
  "STRICT_ALL_TABLES",
];
const modesOfMariadb = [
  "SIMULTANEOUS_ASSIGNMENT",
  "ORACLE",
  "MSSQL",
  "DB2",
  "EMPTY_STRING_IS_NULL",
  "ORACLE,EMPTY_STRING_IS_NULL",
  "NO_TABLE_OPTIONS",
];

testEach(
  "whatever the sql_mode is, all reads and writes are exact, in both plans",
  async (fixture) => {
    const known = fixture.dialect === "mariadb" ? [...modes, ...modesOfMariadb] : modes;
    for (const mode of known) {
      await withSessions(fixture, `set sql_mode = '${mode}'`, async ([pool]) => {
        await assertExactInAllWays(pool, fixture.options);
      });
      const [row] = await fixture.admin(`show create table \`${fixture.table}\``);
      assert(String(row?.["Create Table"]).includes(fixture.collation), mode);
      await fixture.admin(`drop table \`${fixture.table}\``);
    }
  },
);

for (const level of ["read uncommitted", "read committed", "repeatable read", "serializable"]) {
  for (const fetchPlan of plans) {
    testEach(
      `sessions that default to ${level} hand out no value twice, ${fetchPlan}`,
      async (fixture) => {
        const statement = `set session transaction isolation level ${level}`;
        await withSessions(fixture, statement, async (pools) => {
          const options = { ...fixture.options, groupReserve: false, fetchPlan, timeoutMs: 20_000 };
          const stores = await Promise.all(pools.map((pool) => openStore(pool, options)));
          const calls = Array.from({ length: 32 }, (_, index) => stores[index % 2])
            .map((store) => store!.ranges.reserve("order", 5));
          const { values, errors } = sorted(await Promise.allSettled(calls));
          for (const error of errors) {
            assertInstanceOf(error, StoreError);
            assert(["serialization", "deadlock"].includes(error.kind), String(error.cause));
          }
          assertGreater(values.length, 0);
          // What the database rolled back took nothing.
          assertContiguous(values, 1n);
        });
      },
    );
  }
}

testEach("many sessions that use new keys at once agree on one order for each", async (fixture) => {
  await withPool(fixture.uri, { connectionLimit: 16 }, async (pool) => {
    for (const fetchPlan of plans) {
      const options = { ...fixture.options, groupReserve: false, fetchPlan, timeoutMs: 20_000 };
      const { ranges } = await openStore(pool, options);
      for (let round = 0; round < 8; round++) {
        const keys = ["a", "b", "c", "d"].map((name) => `${fetchPlan} ${round} ${name}`);
        const drawn = await Promise.all(
          Array.from({ length: 32 }, async (_, index) => {
            const key = keys[index % keys.length]!;
            return { key, range: await ranges.reserve(key, 3) };
          }),
        );
        for (const key of keys) {
          assertContiguous(drawn.filter((one) => one.key === key).map(({ range }) => range), 1n);
        }
      }
    }
  });
});

testEach("the store clock is UTC whatever the session's time zone is", async (fixture) => {
  for (const zone of ["+00:00", "+05:45", "-11:00"]) {
    await withSessions(fixture, `set time_zone = '${zone}'`, async ([pool]) => {
      const store = await openStore(pool, fixture.options);
      await assertExact(store, `zone ${zone}`);
      const text = (await import("../../dialects/mysql/mod.ts")).mysqlDialect.nowMillis.strings[0];
      const beforeMs = Date.now();
      const [rows] = await pool.query(`select ${text} as now_ms`);
      const afterMs = Date.now();
      const nowMs = Number((rows as { now_ms: number }[])[0]?.now_ms);
      assert(
        nowMs >= beforeMs - 2 && nowMs <= afterMs + 2,
        `${nowMs} is ${beforeMs} to ${afterMs}`,
      );
    });
  }
});

testEach(
  "tables are exact in a database whose own character set or collation is not",
  async (fixture) => {
    const name = uniqueName("d");
    for (
      const defaults of [
        "character set utf8mb4 collate utf8mb4_general_ci",
        "character set latin1",
        "character set utf8mb3",
      ]
    ) {
      await fixture.admin(`create database ${name} ${defaults}`);
      const [host] = await fixture.admin("select substring_index(user(), '@', -1) as host");
      await fixture.admin(`grant all on ${name}.* to '${fixture.user}'@'${host?.host}'`);
      const url = new URL(fixture.uri);
      url.pathname = name;
      try {
        await withPool(url.href, {}, async (pool) => {
          const store = await openStore(pool, { initSchema: true });
          assertEquals(store.warnings.filter((text) => text.includes("range_key")), []);
          await assertExact(store);
          for (const key of ["Order", "order", "ordér", "order ", "字", "学", "🦕", "🦖"]) {
            assertEquals(await store.ranges.reserve(key, 1), { start: 1n, end: 2n });
          }
          const other = await openStore(pool, fixture.options);
          await assertExact(other);
          const qualified = `${new URL(fixture.uri).pathname.slice(1)}.${fixture.table}`;
          await assertExact(
            await openStore(pool, { ...fixture.options, rangeTable: qualified }),
          );
        });
      } finally {
        await fixture.admin(`drop database ${name}`);
        await fixture.admin(`drop table if exists \`${fixture.table}\``);
      }
    }
  },
);

testEach("names of tables that differ only in case are different tables", async (fixture) => {
  await withPool(fixture.uri, {}, async (pool) => {
    const upper = `T${fixture.table.slice(1)}`;
    await fixture.createTable({ key: shortKey(fixture), end: "engine = MyISAM" });
    await assertRejects(() => openStore(pool, { rangeTable: upper }), SchemaError, upper);
    await openStore(pool, { ...fixture.options, rangeTable: upper });
    await assertRejects(
      () => openStore(pool, { rangeTable: fixture.table }),
      ConfigurationError,
      "MyISAM",
    );
    await fixture.admin(`drop table \`${upper}\``);
  });
});

/** MyISAM's keys have at most 1,000 bytes. */
function shortKey({ collation }: MysqlFixture): string {
  return `varchar(200) character set utf8mb4 collate ${collation} primary key`;
}

const inexactKeys: readonly (readonly [string, string])[] = [
  ["varchar(255) character set utf8mb4 collate utf8mb4_general_ci", "utf8mb4_general_ci"],
  ["varchar(255) character set utf8mb4 collate utf8mb4_bin", "spaces at the end"],
  ["varchar(255) character set latin1 collate latin1_bin", "character set"],
  ["varchar(255) character set utf8mb3 collate utf8mb3_bin", "character set"],
  ["char(255) character set utf8mb4 collate utf8mb4_bin", "type char"],
  ["varchar(100) character set utf8mb4 collate utf8mb4_bin", "holds 100 characters"],
  ["binary(255)", "zeros"],
  ["varbinary(764)", "holds 764 bytes"],
];

testEach(
  "a column that takes different texts for equal, or cuts them, is reported",
  async (fixture) => {
    await withPool(fixture.uri, {}, async (pool) => {
      const open = async () => {
        const { warnings } = await openStore(pool, fixture.options);
        return warnings.filter((text) => text.includes("range_key"));
      };
      for (const [type, reason] of inexactKeys) {
        await fixture.createTable({ key: `${type} not null primary key` });
        const warnings = await open();
        assertEquals(warnings.length, 1, type);
        assert(warnings[0]?.includes(reason) && warnings[0].includes(fixture.table), warnings[0]);
        await fixture.admin(`drop table \`${fixture.table}\``);
      }
      const exact = `varchar(255) character set utf8mb4 collate ${fixture.collation}`;
      for (const type of [exact, "varbinary(765)"]) {
        await fixture.createTable({ key: `${type} not null primary key` });
        assertEquals(await open(), []);
        await assertExact(await openStore(pool, fixture.options), type);
        await fixture.admin(`drop table \`${fixture.table}\``);
      }
    });
  },
);

testEach(
  "a table whose unique keys are others is refused, since it would hand out values twice",
  async (fixture) => {
    const { collation } = fixture;
    const text = `varchar(255) character set utf8mb4 collate ${collation} not null`;
    const tables: readonly (readonly [string, string, string])[] = [
      ["no key", text, ""],
      ["a key that is not unique", text, ", key (range_key)"],
      ["a key over a part", text, ", unique key part (range_key(10))"],
      ["a key over more", text, ", primary key (range_key, next_value)"],
      ["another unique key", `${text} primary key`, ", unique key other (next_value)"],
      [
        "a generated number",
        `${text} unique`,
        ", id bigint not null auto_increment, key (id)",
      ],
    ];
    await withPool(fixture.uri, {}, async (pool) => {
      for (const [what, key, more] of tables) {
        await fixture.createTable({ key, more });
        const error = await assertRejects(
          () => openStore(pool, fixture.options),
          ConfigurationError,
          fixture.table,
        );
        assert(/unique key|auto_increment/.test(error.message), what);
        await fixture.admin(`drop table \`${fixture.table}\``);
      }
      for (const more of [", key (next_value)", ", unique key more (range_key, next_value)"]) {
        await fixture.createTable({ key: `${text} primary key`, more });
        await assertExact(await openStore(pool, fixture.options), more);
        await fixture.admin(`drop table \`${fixture.table}\``);
      }
    });
  },
);

testEach("columns in another case, and wide enough, are the same columns", async (fixture) => {
  const key = `varchar(255) character set utf8mb4 collate ${fixture.collation} primary key`;
  for (
    const columns of ["Next_Value bigint, SEALED bit(1)", "NEXT_VALUE bigint unsigned, sealed int"]
  ) {
    const notNull = columns.replace(/(,|$)/g, " not null$1");
    await fixture.admin(
      `create table \`${fixture.table}\` (RANGE_KEY ${key}, ${notNull} default 0)`,
    );
    await withPool(fixture.uri, {}, (pool) => assertExactInAllWays(pool, fixture.options));
    await fixture.admin(`drop table \`${fixture.table}\``);
  }
});

testEach("a column that does not hold every next value is refused", async (fixture) => {
  await withPool(fixture.uri, {}, async (pool) => {
    await fixture.createTable();
    for (const type of ["int", "int unsigned", "double", "decimal(10,0)", "varchar(20)"]) {
      await fixture.admin(`alter table \`${fixture.table}\` modify next_value ${type} not null`);
      await assertRejects(
        () => openStore(pool, fixture.options),
        ConfigurationError,
        "next_value",
      );
    }
  });
});

testEach("a completion_type that chains or ends is refused by name", async (fixture) => {
  for (const type of ["CHAIN", "RELEASE"]) {
    await withSessions(fixture, `set completion_type = '${type}'`, async ([pool]) => {
      await assertRejects(
        () => openStore(pool, fixture.options),
        ConfigurationError,
        "completion_type",
      );
    });
  }
});

testEach(
  "a trigger is reported: with it only the plan transaction hands values out",
  async (fixture) => {
    await withPool(fixture.uri, {}, async (pool) => {
      const log = `${fixture.table}_log`;
      await fixture.admin(`create table ${log} (id bigint auto_increment primary key, n bigint)`);
      for (const when of ["before", "after"]) {
        for (const body of ["new.next_value", "last_insert_id(5)"]) {
          const store = await openStore(pool, fixture.options);
          assertEquals(store.warnings.filter((text) => text.includes("trigger")), []);
          await store.ranges.reserve("order", 10);
          for (const event of ["insert", "update"]) {
            await fixture.admin(
              `create trigger ${fixture.table}_${event} ${when} ${event} on \`${fixture.table}\` ` +
                `for each row insert into ${log} (n) values (${body})`,
            );
          }
          for (const key of ["order", "new"]) {
            await assertRejects(() => store.ranges.reserve(key, 10), ReserveConflictError);
          }
          const plan = await openStore(pool, { ...fixture.options, fetchPlan: "transaction" });
          assertEquals(plan.warnings.filter((text) => text.includes("trigger")).length, 1);
          await assertExact(plan);
          await fixture.admin(`drop table \`${fixture.table}\``);
        }
      }
      await fixture.admin(`drop table ${log}`);
    });
  },
);

testEach("a table that no transaction keeps is refused by its engine", async (fixture) => {
  const engines = ["MyISAM", "MEMORY", ...(fixture.dialect === "mariadb" ? ["Aria"] : [])];
  await withPool(fixture.uri, {}, async (pool) => {
    for (const engine of engines) {
      await fixture.createTable({ key: shortKey(fixture), end: `engine = ${engine}` });
      for (const fetchPlan of ["statement", "transaction"] as const) {
        const { message } = await assertRejects(
          () => openStore(pool, { ...fixture.options, fetchPlan }),
          ConfigurationError,
        );
        assert(message.includes(engine) && message.includes(fixture.table), message);
      }
      await fixture.admin(`drop table \`${fixture.table}\``);
    }
    await openStore(pool, fixture.options);
  });
});

/** The tables of slots as the library makes them, so far as the tests change them. */
function slotTables({ collation, options }: MysqlFixture): {
  namespace: (parts?: { key?: string; length?: number; engine?: string }) => string;
  slot: (parts?: { key?: string; length?: number; engine?: string }) => string;
} {
  const text = (length: number) => `varchar(${length}) character set utf8mb4 collate ${collation}`;
  return {
    namespace: ({ key = "primary key (namespace)", length = 100, engine = "InnoDB" } = {}) =>
      `create table \`${options.namespaceTable}\` (namespace ${text(length)} not null,
        slot_limit integer not null, tolerance_ms bigint not null${key && `, ${key}`}
      ) engine = ${engine}`,
    slot: ({ key = "primary key (namespace, slot)", length = 100, engine = "InnoDB" } = {}) =>
      `create table \`${options.slotTable}\` (namespace ${text(length)} not null,
        slot integer not null, owner_key ${text(255)} null, incarnation char(36) null,
        last_owner_key ${text(255)} null, fence bigint not null default 0,
        expires_at bigint not null default 0, floor_ms bigint not null default 0,
        ceiling_ms bigint not null default 0, next_floor_ms bigint not null default 0
        ${key && `, ${key}`}
      ) engine = ${engine}`,
  };
}

/** Opens a store whose tables of slots were made before, and drops them again. */
async function openOver(
  fixture: MysqlFixture,
  statements: readonly string[],
  check: (open: () => Promise<Store>) => Promise<void>,
): Promise<void> {
  const { slotTable, namespaceTable } = fixture.options;
  for (const statement of statements) await fixture.admin(statement);
  await withPool(fixture.uri, {}, (pool) => check(() => openStore(pool, fixture.options)));
  await fixture.admin(`drop table \`${slotTable}\`, \`${namespaceTable}\``);
}

testEach(
  "a table of slots without its key is refused, since a slot could have two rows",
  async (fixture) => {
    const { namespace, slot } = slotTables(fixture);
    const { slotTable = "", namespaceTable = "" } = fixture.options;
    for (
      const key of [
        "",
        "key (namespace, slot)",
        "primary key (namespace, slot, fence)",
        "unique key (namespace(10), slot)",
        "unique key (fence)",
      ]
    ) {
      await openOver(fixture, [namespace(), slot({ key })], async (open) => {
        const { message } = await assertRejects(open, ConfigurationError, slotTable);
        assert(message.includes("unique key over the columns namespace and slot"), message);
      });
    }
    for (const key of ["", "key (namespace)", "primary key (namespace, slot_limit)"]) {
      await openOver(fixture, [namespace({ key }), slot()], async (open) => {
        const { message } = await assertRejects(open, ConfigurationError, namespaceTable);
        assert(message.includes("unique key over the columns namespace,"), message);
      });
    }
    for (
      const key of ["unique key (slot, namespace)", "primary key (namespace, slot), key (fence)"]
    ) {
      await openOver(fixture, [namespace(), slot({ key })], async (open) => {
        await assertExact(await open(), key);
        await fixture.admin(`drop table \`${fixture.table}\``);
      });
    }
  },
);

testEach("a table of slots that no transaction keeps is refused by its engine", async (fixture) => {
  const { namespace, slot } = slotTables(fixture);
  const { slotTable = "", namespaceTable = "" } = fixture.options;
  const engine = "MyISAM";
  for (
    const [table, statements] of [
      [slotTable, [namespace(), slot({ engine })]],
      [namespaceTable, [namespace({ engine }), slot()]],
    ] as const
  ) {
    await openOver(fixture, statements, async (open) => {
      const { message } = await assertRejects(open, ConfigurationError, engine);
      assert(message.includes(table), message);
    });
  }
});

testEach("an integer of slots that has no 64 bits is refused", async (fixture) => {
  const { namespace, slot } = slotTables(fixture);
  const { slotTable = "", namespaceTable = "" } = fixture.options;
  const columns = [
    ...["fence", "expires_at", "floor_ms", "ceiling_ms", "next_floor_ms"]
      .map((column) => [slotTable, column]),
    [namespaceTable, "tolerance_ms"],
  ];
  await openOver(fixture, [namespace(), slot()], async (open) => {
    for (const [table, column] of columns) {
      for (const type of ["int", "double", "decimal(10,0)"]) {
        await fixture.admin(`alter table \`${table}\` modify ${column} ${type} not null`);
        const { message } = await assertRejects(open, ConfigurationError, table);
        assert(message.includes(`column ${column}`), message);
      }
      await fixture.admin(`alter table \`${table}\` modify ${column} bigint not null default 0`);
    }
    await assertExact(await open());
  });
});

testEach(
  "a namespace has 100 characters, and a column that cuts them is reported, an incarnation never",
  async (fixture) => {
    const { namespace, slot } = slotTables(fixture);
    const { slotTable = "", namespaceTable = "" } = fixture.options;
    const said = (length: number) =>
      [namespaceTable, slotTable].map((table) =>
        `Column namespace of table ${table} may take different texts for equal: it holds ${length} ` +
        `characters, and longer texts are cut unless the sql_mode is strict. Give it an exact ` +
        `collation, as the schema script does.`
      );
    for (const [length, reported] of [[100, []], [99, said(99)], [50, said(50)]] as const) {
      await openOver(fixture, [namespace({ length }), slot({ length })], async (open) => {
        const { warnings } = await open();
        assertEquals(
          warnings.filter((text) => [slotTable, namespaceTable].some((one) => text.includes(one))),
          reported,
        );
      });
    }
  },
);

testEach("a view is refused, for nothing tells what keeps its rows", async (fixture) => {
  const below = uniqueName("below");
  await withPool(fixture.uri, {}, async (pool) => {
    await openStore(pool, { ...fixture.options, rangeTable: below });
    await fixture.admin(`create view \`${fixture.table}\` as select * from ${below}`);
    try {
      await assertRejects(() => openStore(pool, fixture.options), ConfigurationError);
    } finally {
      await fixture.admin(`drop view \`${fixture.table}\``);
      await fixture.admin(`drop table ${below}`);
    }
  });
});

testEach("a temporary table is refused, for every connection has its own", async (fixture) => {
  const create =
    `create temporary table \`${fixture.table}\` (range_key varchar(255) character set ` +
    `utf8mb4 collate ${fixture.collation} primary key, next_value bigint not null, ` +
    `sealed boolean not null default false)`;
  await withSessions(fixture, create, async ([pool]) => {
    await assertRejects(
      () => openStore(pool, { rangeTable: fixture.table }),
      ConfigurationError,
      "temporary",
    );
  });
});

testEach("settings of the server that weaken the promises are reported", async (fixture) => {
  await withPool(fixture.uri, {}, async (pool) => {
    const weak = async (name: string) => {
      const { warnings } = await openStore(pool, fixture.options);
      return warnings.filter((text) => text.startsWith(name)).length;
    };
    for (const [value, count] of [["2", 1], ["0", 1], ["1", 0]] as const) {
      await fixture.setGlobal("innodb_flush_log_at_trx_commit", value);
      assertEquals(await weak("innodb_flush_log_at_trx_commit"), count);
    }
    const [row] = await fixture.admin("select @@log_bin as log_bin, @@innodb_doublewrite as dw");
    for (const value of ["0", "1"]) {
      await fixture.setGlobal("sync_binlog", value);
      assertEquals(await weak("sync_binlog"), Number(row?.log_bin) && value === "0" ? 1 : 0);
    }
    const off = ["0", "OFF"].includes(String(row?.dw));
    assertEquals(await weak("innodb_doublewrite"), off ? 1 : 0);
  });
});

testEach("a read-only server is told from other failures", async (fixture) => {
  await fixture.createTable();
  await withPool(fixture.uri, { connectionLimit: 2 }, async (pool) => {
    const before = await openStore(pool, fixture.options);
    await before.ranges.reserve("order", 10);
    const name = fixture.dialect === "mysql" ? "super_read_only" : "read_only";
    if (name === "super_read_only") await fixture.setGlobal("read_only", "1");
    await fixture.setGlobal(name, "1");
    try {
      for (const fetchPlan of plans) {
        // Nothing is missing, so nothing has to be created.
        const store = await openStore(pool, { ...fixture.options, fetchPlan });
        await assertStoreError(() => store.ranges.reserve("order", 1), "readOnly");
        await assertStoreError(() => store.ranges.reserve("new", 1), "readOnly");
        await assertStoreError(() => store.ranges.seal("order"), "readOnly");
        assertEquals(await store.ranges.read("order"), { nextValue: 11n, sealed: false });
      }
      await assertStoreError(
        () => openStore(pool, { ...fixture.options, rangeTable: `${fixture.table}_2` }),
        "readOnly",
      );
    } finally {
      await fixture.setGlobal(name, "0");
      await fixture.setGlobal("read_only", "0");
    }
    assertEquals((await before.ranges.reserve("order", 1)).start, 11n);
  });
  const readOnly = "set session transaction read only";
  await withSessions(fixture, readOnly, async ([pool]) => {
    const store = await openStore(pool, fixture.options);
    await assertStoreError(() => store.ranges.reserve("order", 1), "readOnly");
  });
});

testEach(
  "a user that may only read can open and read, and is told that it may not write",
  async (fixture) => {
    await fixture.createTable();
    await withPool(await fixture.userWith("select"), {}, async (pool) => {
      for (const fetchPlan of plans) {
        const store = await openStore(pool, { rangeTable: fixture.table, fetchPlan });
        await assertStoreError(() => store.ranges.reserve("order", 1), "permission");
        await assertStoreError(() => store.ranges.seal("order"), "permission");
        assertEquals(await store.ranges.read("order"), undefined);
      }
      await assertStoreError(
        () => openStore(pool, { ...fixture.options, rangeTable: `${fixture.table}_2` }),
        "permission",
      );
    });
    const tables = { ...fixture.options, initSchema: false };
    await withPool(fixture.uri, {}, async (pool) => void await openStore(pool, fixture.options));
    await withPool(await fixture.userWith("select, insert, update"), {}, async (pool) => {
      const store = await openStore(pool, tables);
      await assertExactRanges(store);
      const acquire = () => store.slots.acquire({ namespace: "workers", limit: 8 });
      await assertStoreError(acquire, "permission");
    });
    await withPool(await fixture.userWithSlots("select, insert, update"), {}, async (pool) => {
      await assertExactSlots(await openStore(pool, tables));
    });
    await withPool(await fixture.userWith(undefined), {}, async (pool) => {
      await assertStoreError(() => openStore(pool, { rangeTable: fixture.table }), "permission");
    });
  },
);

testEach("a database that does not exist is told from other failures", async (fixture) => {
  await withPool(fixture.uri, {}, async (pool) => {
    const rangeTable = `${uniqueName("d")}.ranges`;
    const error = await assertRejects(() => openStore(pool, { rangeTable }), Error);
    assert("code" in error && ["SCHEMA", "STORE"].includes(String(error.code)), String(error));
  });
});

testEach("a full table is told from other failures, and nothing is handed out", async (fixture) => {
  // The server says the same of a full disk.
  await withSessions(fixture, "set max_heap_table_size = 16384", async ([pool]) => {
    const store = await openStore(pool, fixture.options);
    // A store would not open on it.
    await pool.query(`alter table \`${fixture.table}\` engine = MEMORY`);
    const error = await assertStoreError(async () => {
      for (let index = 0; index < 10_000; index++) await store.ranges.reserve(`key ${index}`, 1);
    }, "diskFull");
    assert(error.message.includes("ER_RECORD_FILE_FULL"));
    assertEquals(await store.ranges.read("key 0"), { nextValue: 2n, sealed: false });
  });
});

/** Opens stores whose sessions wait for a lock no longer than a second. */
async function withImpatience(
  fixture: MysqlFixture,
  body: (stores: { open: typeof openStore; retries: () => number }) => Promise<void>,
): Promise<void> {
  let retries = 0;
  await withSessions(fixture, "set innodb_lock_wait_timeout = 1", async ([pool]) => {
    const open = (_: unknown, options: Parameters<typeof openStore>[1]) =>
      openStore(pool, {
        ...options,
        timeoutMs: 20_000,
        onEvent: ({ type }) => void (type === "retry" && retries++),
      });
    await body({ open, retries: () => retries });
  });
}

for (const fetchPlan of plans) {
  testEach(
    `a lock that was waited for in vain is waited for again, ${fetchPlan}`,
    async (fixture) => {
      await withImpatience(fixture, async ({ open, retries }) => {
        const store = await open("", { ...fixture.options, fetchPlan });
        const before = await store.ranges.reserve("order", 10);
        await using lock = await lockRow(fixture, "order");
        const call = store.ranges.reserve("order", 10);
        let failed: unknown;
        call.catch((error) => failed = error);
        while (retries() === 0 && failed === undefined) await fixture.waiting(1);
        await lock.free();
        assertEquals((await settles(call, "the call")).start, before.end);
        assertEquals(await fixture.nextValue("order"), before.end + 10n);
        await fixture.idle();
      });
    },
  );
}

testEach("a statement that the server interrupts takes nothing", async (fixture) => {
  await withPool(fixture.uri, { connectionLimit: 1 }, async (pool) => {
    const store = await openStore(pool, fixture.options);
    const before = await store.ranges.reserve("order", 10);
    await using lock = await lockRow(fixture, "order");
    const call = assertStoreError(() => store.ranges.reserve("order", 10), "other");
    await fixture.waiting(1);
    await fixture.killWaiting("query");
    assert((await call).message.includes("ER_QUERY_INTERRUPTED"));
    await lock.free();
    assertEquals((await store.ranges.reserve("order", 10)).start, before.end);
  });
});

testEach(
  "an error of the server's holds neither what it said nor what was bound",
  async (fixture) => {
    await withPool(fixture.uri, {}, async (pool) => {
      for (const prepare of [true, false]) {
        const store = await openStore(pool, { ...fixture.options, prepare });
        await fixture.admin(
          `alter table \`${fixture.table}\` add constraint c${Number(prepare)}_${fixture.table} ` +
            `check (range_key <> 'secret-key')`,
        );
        const error = await assertStoreError(() => store.ranges.reserve("secret-key", 1), "other");
        assert(!error.message.includes("secret-key"));
        assert(error.message.includes("range.reserve"), error.message);
      }
    });
  },
);
