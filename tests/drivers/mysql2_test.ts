import {
  createConnection as createCallbackConnection,
  createPool as createCallbackPool,
  type PoolConnection,
} from "mysql2";
import { type Connection, createConnection, type PoolOptions } from "mysql2/promise";
import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { openStore } from "../../dialects/mysql/mod.ts";
import {
  ConfigurationError,
  InTransactionError,
  openStore as openUrl,
  SchemaError,
  StoreClosedError,
} from "../../mod.ts";
import { HandRuntime, settle } from "../core/hand_runtime.ts";
import { startProxy } from "../servers/proxy.ts";
import { until } from "../servers/until.ts";
import { freePort } from "../servers/temporary.ts";
import { allWords } from "../words.ts";
import {
  assertExactInAllWays,
  lockRow,
  type MysqlFixture,
  testEach,
  withCallbackPool,
  withPool,
} from "./mysql_fixture.ts";
import { assertContiguous, assertDisjoint, settles } from "./ranges.ts";
import { assertExact, assertStoreError } from "./stores.ts";

const plans = ["statement", "transaction"] as const;

/** Runs something with a single connection. */
async function withConnection<T>(
  fixture: MysqlFixture,
  body: (connection: Connection) => Promise<T>,
): Promise<T> {
  const connection = await createConnection({ uri: fixture.uri });
  try {
    return await body(connection);
  } finally {
    connection.destroy();
  }
}

testEach("a pool that says set names utf8mb4 on each new connection may grow", async (fixture) => {
  const pool = createCallbackPool({ uri: fixture.uri, connectionLimit: 5 });
  pool.on("connection", (connection) => void connection.query("set names utf8mb4"));
  try {
    const store = await openStore(pool, { ...fixture.options, groupReserve: false });
    const calls = Array.from({ length: 10 }, () => store.ranges.reserve("order", 3));
    assertContiguous(await Promise.all(calls), 1n);
  } finally {
    await pool.promise().end();
  }
});

testEach("a store uses the application's pool and never closes it", async (fixture) => {
  const { options, table, uri } = fixture;
  await withPool(uri, {}, async (pool) => {
    const store = await openStore(pool, options);
    assertEquals(store.dialect, fixture.dialect);
    await assertExact(store);
    await store.close();
    await store.close();
    await assertRejects(() => store.ranges.reserve("order", 1), StoreClosedError);
    await assertRejects(() => openStore(pool, { rangeTable: `${table}_missing` }), SchemaError);
    await pool.query("select 1");
    const other = await openStore(pool, { rangeTable: table });
    assertEquals(await other.ranges.reserve("order", 1), { start: 1n, end: 2n });
  });
});

testEach("a pool with callbacks works as one with promises does", async (fixture) => {
  await withCallbackPool(fixture.uri, async (pool) => {
    await assertExactInAllWays(pool, fixture.options);
    await assertExact(await openStore(pool.promise(), fixture.options), "its promises");
  });
});

const settingsOfPools: Readonly<Record<string, PoolOptions>> = {
  "the defaults": {},
  "rowsAsArray": { rowsAsArray: true },
  "nestTables: true": { nestTables: true } as PoolOptions,
  "nestTables: '_'": { nestTables: "_" } as PoolOptions,
  "a typeCast that spoils all": { typeCast: (field) => `${field.name}: ${field.string()}` },
  "typeCast: false": { typeCast: false },
  "dateStrings": { dateStrings: true },
  "decimalNumbers": { decimalNumbers: true },
  "supportBigNumbers": { supportBigNumbers: true },
  "supportBigNumbers and bigNumberStrings": { supportBigNumbers: true, bigNumberStrings: true },
  "bigNumberStrings alone": { bigNumberStrings: true },
  "jsonStrings": { jsonStrings: true },
  "namedPlaceholders": { namedPlaceholders: true },
  "stringifyObjects": { stringifyObjects: true },
  "a timezone": { timezone: "+05:45" },
  "multipleStatements": { multipleStatements: true },
  "found rows not counted": { flags: ["-FOUND_ROWS"] },
  "spaces after names of functions": { flags: ["-IGNORE_SPACE"] },
  "no session tracking and no query attributes": {
    flags: ["-SESSION_TRACK", "-CLIENT_QUERY_ATTRIBUTES"],
  },
  "disableEval": { disableEval: true },
  "disableEval and a typeCast": {
    disableEval: true,
    typeCast: (field) => `${field.name}: ${field.string()}`,
  },
  "compress": { compress: true },
  "maxPreparedStatements: 1": { maxPreparedStatements: 1 },
  "a queryFormat for names": {
    queryFormat: (text: string, values: Record<string, unknown>) =>
      text.replace(/:(\w+)/g, (_, name) => String(values[name])),
  },
  "insecureAuth": { insecureAuth: true },
  "trace: false": { trace: false },
  "resetOnRelease": { resetOnRelease: true },
  "connectionLimit: 1": { connectionLimit: 1 },
  "maxIdle and a short idleTimeout": { maxIdle: 1, idleTimeout: 1 },
  "gracefulEnd": { gracefulEnd: true } as PoolOptions,
  "another collation of utf8mb4": { charset: "utf8mb4_bin" },
  "enableKeepAlive: false": { enableKeepAlive: false },
};

for (const [name, settings] of Object.entries(settingsOfPools)) {
  testEach(`a pool with ${name} reads and writes exactly, in both plans`, async (fixture) => {
    await withPool(fixture.uri, settings, (pool) => assertExactInAllWays(pool, fixture.options));
  });
}

for (const charset of ["latin1", "utf8_general_ci", "cp1251", "ascii"]) {
  testEach(`the charset ${charset} is refused by name`, async (fixture) => {
    await withPool(fixture.uri, { charset }, async (pool) => {
      const error = await assertRejects(() => openStore(pool, fixture.options), ConfigurationError);
      assertStringIncludes(error.message, "charset");
    });
  });
}

testEach("a connection whose charset is changed later is refused", async (fixture) => {
  await withPool(fixture.uri, { connectionLimit: 1 }, async (pool) => {
    const store = await openStore(pool, fixture.options);
    await store.ranges.reserve("字", 1);
    await pool.query("set names latin1");
    await assertRejects(() => store.ranges.reserve("字", 1), Error, "utf8mb4");
    await pool.query("set names utf8mb4");
    assertEquals(await store.ranges.reserve("字", 1), { start: 2n, end: 3n });
  });
});

testEach(
  "a queryFormat that changes what has no placeholder is refused by name",
  async (fixture) => {
    await withPool(fixture.uri, { queryFormat: (text) => `/* shop */ ${text}` }, async (pool) => {
      const error = await assertRejects(() => openStore(pool, fixture.options), ConfigurationError);
      assertStringIncludes(error.message, "queryFormat");
    });
  },
);

testEach(
  "autocommit = 0 is refused by name when a store opens, and after a write",
  async (fixture) => {
    await withPool(fixture.uri, { connectionLimit: 1 }, async (pool) => {
      const store = await openStore(pool, fixture.options);
      await store.ranges.reserve("order", 1);
      await pool.query("set autocommit = 0");
      await assertRejects(
        () => openStore(pool, fixture.options),
        ConfigurationError,
        "autocommit",
      );
      await pool.query("set autocommit = 0");
      for (
        const call of [() => store.ranges.reserve("order", 1), () => store.ranges.seal("order")]
      ) {
        await assertRejects(call, InTransactionError);
        await pool.query("set autocommit = 0");
      }
      await pool.query("set autocommit = 1");
      assertEquals(await store.ranges.reserve("order", 1), { start: 2n, end: 3n });
    });
  },
);

for (const fetchPlan of plans) {
  testEach(
    `a connection put back inside a transaction hands nothing out, ${fetchPlan}`,
    async (fixture) => {
      await withPool(fixture.uri, { connectionLimit: 1 }, async (pool) => {
        const store = await openStore(pool, { ...fixture.options, fetchPlan });
        const before = await store.ranges.reserve("order", 1);
        for (const begin of ["start transaction", "start transaction with consistent snapshot"]) {
          const careless = await pool.getConnection();
          await careless.query(begin);
          careless.release();
          await assertRejects(() => store.ranges.reserve("order", 1), InTransactionError);
          await fixture.idle();
          assertEquals(await fixture.nextValue("order"), before.end);
        }
        assertEquals((await store.ranges.reserve("order", 1)).start, before.end);
      });
    },
  );

  testEach(`another's transaction in the pool is not committed, ${fetchPlan}`, async (fixture) => {
    await withPool(fixture.uri, { connectionLimit: 1 }, async (pool) => {
      const store = await openStore(pool, { ...fixture.options, fetchPlan });
      await store.ranges.reserve("order", 1);
      const careless = await pool.getConnection();
      await careless.beginTransaction();
      await careless.execute(
        `insert into \`${fixture.table}\` (range_key, next_value) values (?, ?)`,
        ["of the application", 1],
      );
      careless.release();
      for (
        const call of [
          () => store.ranges.reserve("order", 1),
          () => store.ranges.advance("order", 100),
          () => store.ranges.seal("order"),
        ]
      ) {
        await call().then(() => {}, (error) => assertInstanceOf(error, InTransactionError));
      }
      await fixture.idle();
      assertEquals(await fixture.nextValue("of the application"), undefined);
    });
  });

  testEach(`calls on an exclusive connection take turns, ${fetchPlan}`, async (fixture) => {
    await withConnection(fixture, async (connection) => {
      const options = { ...fixture.options, exclusive: true, fetchPlan, groupReserve: false };
      const stores = [await openStore(connection, options), await openStore(connection, options)];
      const ranges = await Promise.all(
        Array.from({ length: 20 }, (_, index) => stores[index % 2]!.ranges.reserve("order", 1)),
      );
      assertContiguous(ranges, 1n);
    });
  });

  testEach(`the application's transaction is waited out, ${fetchPlan}`, async (fixture) => {
    await withConnection(fixture, async (connection) => {
      const clock = new HandRuntime();
      const options = { ...fixture.options, exclusive: true, fetchPlan, runtime: clock };
      const store = await openStore(connection, options);
      const before = await store.ranges.reserve("order", 1);
      await connection.beginTransaction();
      const call = store.ranges.reserve("order", 1);
      let ended = false;
      const end = () => void (ended = true);
      call.then(end, end);
      for (let ms = 0; ms < 200; ms++) {
        await settle();
        clock.advance(1);
      }
      assertEquals(ended, false);
      await connection.rollback();
      await until(() => (clock.advance(10), ended || undefined), { what: "the call to go on" });
      assertEquals((await call).start, before.end);
      assertEquals(await fixture.nextValue("order"), before.end + 1n);
    });
  });

  testEach(
    `the application's transaction is refused at the deadline, ${fetchPlan}`,
    async (fixture) => {
      await withConnection(fixture, async (connection) => {
        const clock = new HandRuntime();
        const options = { ...fixture.options, exclusive: true, fetchPlan, runtime: clock };
        const store = await openStore(connection, options);
        const before = await store.ranges.reserve("order", 1);
        await connection.beginTransaction();
        await assertRejects(
          () => clock.drive(store.ranges.reserve("order", 1)),
          InTransactionError,
        );
        await connection.rollback();
        assertEquals(await fixture.nextValue("order"), before.end);
        assertEquals((await store.ranges.reserve("order", 1)).start, before.end);
      });
    },
  );

  testEach(`many callers share a pool of two, ${fetchPlan}`, async (fixture) => {
    await withPool(fixture.uri, { connectionLimit: 2 }, async (pool) => {
      const options = { ...fixture.options, fetchPlan, groupReserve: false };
      const store = await openStore(pool, options);
      const ranges = await Promise.all(
        Array.from({ length: 40 }, (_, index) => store.ranges.reserve("order", 1 + index % 3)),
      );
      assertContiguous(ranges, 1n);
    });
  });
}

testEach("a single connection of either API is refused unless it is exclusive", async (fixture) => {
  await withConnection(fixture, async (connection) => {
    const error = await assertRejects(
      () => openStore(connection, fixture.options),
      ConfigurationError,
    );
    assertStringIncludes(error.message, "exclusive: true");
    await assertExactInAllWays(connection, { ...fixture.options, exclusive: true });
  });
  await withPool(fixture.uri, {}, async (pool) => {
    const connection = await pool.getConnection();
    await assertRejects(() => openStore(connection, fixture.options), ConfigurationError);
    await assertExact(await openStore(connection, { ...fixture.options, exclusive: true }), "pool");
    connection.release();
  });
  const connection = createCallbackConnection({ uri: fixture.uri });
  try {
    await assertRejects(() => openStore(connection, fixture.options), ConfigurationError);
    await assertExact(await openStore(connection, { ...fixture.options, exclusive: true }), "core");
  } finally {
    connection.destroy();
  }
});

testEach("a pool whose connections are all taken ends a call by its deadline", async (fixture) => {
  await withPool(fixture.uri, { connectionLimit: 1 }, async (pool) => {
    const clock = new HandRuntime();
    const store = await openStore(pool, { ...fixture.options, runtime: clock });
    const taken = await pool.getConnection();
    const { threadId } = taken;
    const call = assertRejects(() => store.ranges.reserve("order", 1), Error, "not done in time");
    await settle();
    clock.advance(5_000);
    await settles(call, "the call to end");
    taken.release();
    assertEquals(await store.ranges.reserve("order", 1), { start: 1n, end: 2n });
    const again = await pool.getConnection();
    assertEquals(again.threadId, threadId);
    again.release();
  });
});

testEach("a pool that takes nobody more is a failure of the connection", async (fixture) => {
  for (const settings of [{ queueLimit: 1 }, { waitForConnections: false }]) {
    await withPool(fixture.uri, { connectionLimit: 1, ...settings }, async (pool) => {
      const store = await openStore(pool, fixture.options);
      const taken = await pool.getConnection();
      const queued = pool.query("select 1").catch(() => {});
      await assertStoreError(() => store.ranges.reserve("order", 1), "connection");
      taken.release();
      await queued;
      await store.ranges.reserve("order", 1);
    });
  }
});

testEach("a pool that was ended is a failure of the connection", async (fixture) => {
  let store;
  await withPool(fixture.uri, {}, async (pool) => {
    store = await openStore(pool, fixture.options);
  });
  await assertStoreError(() => store!.ranges.reserve("order", 1), "connection");
});

testEach("no listener is left on a connection that was put back", async (fixture) => {
  await withPool(fixture.uri, { connectionLimit: 1 }, async (pool) => {
    const store = await openStore(pool, fixture.options);
    const listeners = async () => {
      const connection = await new Promise<PoolConnection>((resolve, reject) =>
        pool.pool.getConnection((error, connection) => error ? reject(error) : resolve(connection))
      );
      connection.release();
      const counts = connection.eventNames().map((name) => connection.listenerCount(name));
      return counts.reduce((sum, count) => sum + count, 0);
    };
    await store.ranges.reserve("order", 1);
    const before = await listeners();
    for (let count = 0; count < 20; count++) await store.ranges.reserve("order", 1);
    assertEquals(await listeners(), before);
  });
});

testEach(
  "stores on one pool share what is prepared, however many values they bind",
  async (fixture) => {
    await withPool(fixture.uri, { connectionLimit: 1 }, async (pool) => {
      const count = async () => {
        const [rows] = await pool.query("show session status like 'Com_stmt_prepare'");
        return Number((rows as { Value: string }[])[0]?.Value);
      };
      const first = await openStore(pool, fixture.options);
      await first.ranges.reserve("order", 1);
      const before = await count();
      for (let index = 0; index < 10; index++) {
        await first.ranges.reserve(`key ${index}`, 2n ** BigInt(index * 6), {
          initialOffset: index,
        });
      }
      assertEquals(await count(), before);
      const second = await openStore(pool, fixture.options);
      const opened = await count();
      await second.ranges.reserve("order", 1);
      assertEquals(await count(), opened);
    });
  },
);

testEach("with prepare: false nothing is prepared on the server", async (fixture) => {
  await withPool(fixture.uri, { connectionLimit: 1 }, async (pool) => {
    const store = await openStore(pool, { ...fixture.options, prepare: false });
    await assertExact(store);
    const [rows] = await pool.query("show session status like 'Com_stmt_prepare'");
    assertEquals(Number((rows as { Value: string }[])[0]?.Value), 0);
  });
});

testEach("a store that opened a URL closes its connections, and no other", async (fixture) => {
  const url = new URL(fixture.uri);
  const { username } = url;
  url.username = "";
  for (const scheme of ["mysql", "mariadb"]) {
    const target = url.href.replace(/^mysql/, scheme);
    const store = await openUrl(target, { ...fixture.options, username, password: "" });
    assertEquals(store.dialect, fixture.dialect);
    await assertExact(store, scheme);
    await store.close();
    const [row] = await fixture.admin(
      `select count(*) as count from information_schema.processlist ` +
        `where user = '${fixture.user}' and command <> 'Quit'`,
    );
    assert(Number(row?.count) <= 1, "connections are left");
  }
});

testEach("a wrong password is a matter of permission and stands in no error", async (fixture) => {
  const right = "right-s3cr3t";
  const uri = await fixture.userWith(undefined, right);
  const wrong = "wrong-s3cr3t";
  const wrongUri = uri.replace(right, wrong);
  await withPool(wrongUri, {}, async (pool) => {
    const error = await assertStoreError(() => openStore(pool, fixture.options), "permission");
    assert(!allWords(error).includes(wrong));
  });
  const error = await assertStoreError(() => openUrl(wrongUri, fixture.options), "permission");
  assert(!allWords(error).includes(wrong));
});

testEach("a server that cannot be reached is a failure of the connection", async (fixture) => {
  const url = new URL(fixture.uri);
  url.port = String(await freePort());
  url.password = "s3cr3t";
  await withPool(url.href, {}, async (pool) => {
    const error = await assertStoreError(() => openStore(pool, fixture.options), "connection");
    assert(!allWords(error).includes("s3cr3t"));
  });
  const error = await assertStoreError(() => openUrl(url.href, fixture.options), "connection");
  assert(!allWords(error).includes("s3cr3t"));
});

testEach("a connection that the server ends takes no process with it", async (fixture) => {
  const uncaught: unknown[] = [];
  const note = (event: ErrorEvent) => {
    event.preventDefault();
    uncaught.push(event.error);
  };
  globalThis.addEventListener("error", note);
  try {
    await withPool(fixture.uri, { connectionLimit: 1 }, async (pool) => {
      const store = await openStore(pool, fixture.options);
      const drawn = [await store.ranges.reserve("order", 1)];
      for (let round = 0; round < 3; round++) {
        await using lock = await lockRow(fixture, "order");
        const call = store.ranges.reserve("order", 1);
        const ended = assertStoreError(() => call, "connection");
        await fixture.waiting(1);
        await fixture.killWaiting();
        await ended;
        await lock.free();
        drawn.push(await store.ranges.reserve("order", 1));
      }
      assertDisjoint(drawn);
    });
    await using proxy = await startProxy(fixture.uri);
    await withPool(proxy.url, { connectionLimit: 2 }, async (pool) => {
      const store = await openStore(pool, fixture.options);
      await store.ranges.reserve("order", 1);
      proxy.cut();
      await store.ranges.reserve("order", 1).catch(() => {});
      assert((await store.ranges.reserve("order", 1)).start > 1n);
    });
    assertEquals(uncaught, []);
  } finally {
    globalThis.removeEventListener("error", note);
  }
});
