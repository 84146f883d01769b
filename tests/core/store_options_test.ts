import {
  assert,
  assertEquals,
  assertRejects,
  assertStrictEquals,
  assertStringIncludes,
} from "@std/assert";
import {
  ConfigurationError,
  InvalidArgumentError,
  openStore,
  ReserveConflictError,
  SchemaError,
  StoreClosedError,
  StoreError,
  type StoreEvent,
  type StoreOptions,
  TimeoutError,
} from "../../mod.ts";
import { openStoreOver, storeOptionNames } from "../../core/store.ts";
import { HandRuntime, settle } from "./hand_runtime.ts";
import { MemoryClient, MemoryDialect, result } from "./memory_client.ts";

/** Opens over a client, and gives the error that it ends with. */
async function refusal(
  options: unknown,
  client = new MemoryClient(),
): Promise<InvalidArgumentError> {
  const error = await assertRejects(
    () => openStore(client, options as StoreOptions),
    InvalidArgumentError,
    "Cannot ",
  );
  assertEquals(client.sent, [], "something was sent");
  return error;
}

Deno.test("a store opens over a client with a dialect of the caller's", async () => {
  const client = new MemoryClient();
  const store = await openStore(client, { dialects: [new MemoryDialect()] });
  assertEquals(store.dialect, "memory");
  assertEquals(store.server, { product: "Memory", version: "1.5" });
  assertEquals(store.warnings, []);
  assertEquals(await store.ranges.reserve("order", 5), { start: 1n, end: 6n });
  assertEquals(await store.ranges.reserve("order", 5), { start: 6n, end: 11n });
});

Deno.test("an unknown option is refused with the names that there are", async () => {
  for (const name of ["initschema", "table", "builtIn", "pool", "toString"]) {
    const { message } = await refusal({ [name]: 1 });
    assert(message.endsWith(`received "${name}"`), message);
    for (const known of storeOptionNames) assertStringIncludes(message, known);
  }
});

Deno.test("a value that an option does not allow is refused with the option's name", async () => {
  const bad: Readonly<Record<string, readonly unknown[]>> = {
    dialect: [5, {}, null, ["memory"], { name: "memory" }],
    dialects: [{}, "memory", ["memory"], [new MemoryDialect(), null], null],
    initSchema: [1, "true", null],
    rangeTable: [5, "", "a b", "a.b.c", "a-b", null],
    slotTable: [5, "", "a b", "a.b.c", "a-b", null],
    namespaceTable: [5, "", "a b", "a.b.c", "a-b", null],
    fetchPlan: ["Statement", "", 1, null],
    groupReserve: [0, "false", null],
    timeoutMs: [0, -1, NaN, Infinity, "5", 5n, null],
    signal: [{}, null, "aborted"],
    onEvent: [{}, "log", null],
    runtime: [{}, 5, null],
  };
  assertEquals(Object.keys(bad).sort(), [...storeOptionNames].sort());
  for (const [name, values] of Object.entries(bad)) {
    for (const value of values) {
      const { message } = await refusal({ dialects: [new MemoryDialect()], [name]: value });
      assertStringIncludes(message, name);
    }
  }
  for (const options of [null, 5, "sqlite"]) await refusal(options);
});

Deno.test("a client that is none is refused", async () => {
  const call = openStore as (target: unknown) => Promise<unknown>;
  for (const target of [null, undefined, 5, {}, { query: 1 }]) {
    await assertRejects(
      () => call(target),
      InvalidArgumentError,
      "URL or a Client",
    );
  }
});

Deno.test("the caller's dialects are tried before those that come with the library", async () => {
  const [mine, other, builtIn] = [
    new MemoryDialect("mine"),
    new MemoryDialect("other", "Another"),
    new MemoryDialect("built in"),
  ];
  const open = (dialects: MemoryDialect[]) =>
    openStoreOver(new MemoryClient(), { dialects, builtIn: [builtIn] });
  assertEquals((await open([other, mine])).dialect, "mine");
  assertEquals([other.asked.length, mine.asked.length, builtIn.asked.length], [1, 1, 0]);
  assertEquals((await open([other])).dialect, "built in");
  assertEquals((await open([])).dialect, "built in");
  assertEquals(builtIn.asked[0], { product: "Memory", version: "1.5" });
});

Deno.test("a dialect is chosen by its name or given itself, whatever the server is", async () => {
  const server = { product: "A fork", version: "9" };
  const [mine, builtIn] = [new MemoryDialect("mine", "?"), new MemoryDialect("built in", "?")];
  const open = (options: StoreOptions) =>
    openStoreOver(new MemoryClient({ server }), { ...options, builtIn: [builtIn] });
  assertEquals((await open({ dialect: "built in" })).dialect, "built in");
  assertEquals((await open({ dialect: "mine", dialects: [mine] })).dialect, "mine");
  assertEquals((await open({ dialect: mine })).dialect, "mine");
  assertEquals((await open({ dialect: mine })).server, server);
  assertEquals([mine.asked.length, builtIn.asked.length], [0, 0]);
});

Deno.test("of dialects of one name the caller's is chosen", async () => {
  const mine = new MemoryDialect("memory");
  mine.weak = ["mine"];
  const options = { dialect: "memory", dialects: [mine], builtIn: [new MemoryDialect("memory")] };
  assertEquals((await openStoreOver(new MemoryClient(), options)).warnings, ["mine"]);
});

Deno.test("a dialect's name that is not known is refused with those that are", async () => {
  const { message } = await refusal({ dialect: "oracle", dialects: [new MemoryDialect("mine")] });
  assertEquals(message, 'Cannot open store: dialect must be one of mine: received "oracle"');
});

Deno.test("a server that no dialect supports is refused by its name and version", async () => {
  const client = new MemoryClient({ server: { product: "Oracle", version: "23.4" } });
  const error = await assertRejects(
    () => openStore(client, { dialects: [new MemoryDialect("mine"), new MemoryDialect("other")] }),
    ConfigurationError,
  );
  assertStringIncludes(error.message, "Oracle 23.4");
  assertStringIncludes(error.message, "mine, other");
  assertEquals(client.sent, ["open.server"]);
});

Deno.test("a client is closed when opening over it fails, and by the store otherwise", async () => {
  const client = new MemoryClient();
  await assertRejects(() => openStore(client, { dialects: [new MemoryDialect("mine", "?")] }));
  assertEquals(client.closed, 1);
  const store = await openStore(client, { dialects: [new MemoryDialect()] });
  assertEquals(client.closed, 1);
  await store.close();
  await store.close();
  await store[Symbol.asyncDispose]();
  assertEquals(client.closed, 2);
  await assertRejects(() => store.ranges.reserve("order", 1), StoreClosedError);
  await assertRejects(() => store.ranges.read("order"), StoreClosedError);
});

Deno.test("a driver without transactions has no plan of that kind", async () => {
  const client = new MemoryClient();
  Object.defineProperty(client, "transaction", { value: undefined });
  const options = { dialects: [new MemoryDialect()] };
  const { message } = await refusal({ ...options, fetchPlan: "transaction" }, client);
  assertStringIncludes(message, "no transactions");
  const store = await openStore(client, options);
  assertEquals(await store.ranges.reserve("order", 1), { start: 1n, end: 2n });
});

Deno.test("a table that is missing, or lacks columns, is refused by name", async () => {
  const dialect = new MemoryDialect();
  const open = () => openStore(new MemoryClient(), { dialect, rangeTable: "shop.Order" });
  dialect.has = [];
  const missing = await assertRejects(open, SchemaError);
  assertEquals([missing.table, missing.missingColumns], ["shop.Order", []]);
  assertStringIncludes(missing.message, "initSchema: true");
  dialect.has = [{ name: "range_key" }];
  const lacking = await assertRejects(open, SchemaError);
  assertEquals(lacking.missingColumns, ["next_value", "sealed"]);
  assertStringIncludes(lacking.message, "next_value, sealed");
});

Deno.test("what is missing is created only if asked, and what another created is no error", async () => {
  const dialect = new MemoryDialect();
  const all = dialect.has;
  const created: string[] = [];
  const client = new MemoryClient({
    answer(statement) {
      created.push(statement.strings.join("#").trim());
      dialect.has = all;
      return Promise.reject(new Error("kind duplicate"));
    },
  });
  dialect.has = [];
  await assertRejects(() => openStore(client, { dialect }), SchemaError);
  assertEquals(created, []);
  await openStore(client, { dialect, initSchema: true });
  assertEquals(created, ["create table #"]);
  dialect.has = all.slice(0, 2);
  created.length = 0;
  await openStore(client, { dialect, initSchema: true });
  assertEquals(created, ["alter table # add"]);
  created.length = 0;
  await openStore(client, { dialect, initSchema: true });
  assertEquals(created, []);
});

Deno.test("who uses no slots needs no tables of them; who does is told then", async () => {
  const dialect = new MemoryDialect();
  dialect.hasSlots = [];
  dialect.weak = ["fsync is off."];
  const client = new MemoryClient({
    answer: (_, call) =>
      call?.name === "range.reserve"
        ? Promise.resolve(result({ next_value: 2n }))
        : Promise.reject(new Error("kind permission")),
  });
  const store = await openStore(client, { dialect, slotTable: "shop.slot" });
  assertEquals(dialect.weighed, [["cosid_range"]]);
  assertEquals(await store.ranges.reserve("order", 1), { start: 1n, end: 2n });
  const acquire = () => store.slots.acquire({ namespace: "workers", limit: 8 });
  assertEquals((await assertRejects(acquire, SchemaError)).table, "shop.slot");

  // Once they are there they are looked at, as if the store had been opened then.
  dialect.hasSlots = [{ name: "slot", inexact: "it ignores case" }];
  dialect.weak = ["fsync is off.", "The table is unlogged."];
  assertEquals((await assertRejects(acquire, StoreError)).kind, "permission");
  assertEquals(dialect.weighed.slice(1), [["cosid_range", "shop.slot", "cosid_namespace"]]);
  assertEquals(store.warnings.length, 3);
  assertStringIncludes(store.warnings[1] ?? "", "Column slot of table shop.slot");
  assertEquals(store.warnings[2], "The table is unlogged.");
});

Deno.test("tables of slots that cannot be used are refused when the store opens", async () => {
  const dialect = new MemoryDialect();
  dialect.hasSlots = [{ name: "slot", unusable: "its type is real" }];
  await assertRejects(
    () => openStore(new MemoryClient(), { dialect }),
    ConfigurationError,
    "column slot of table cosid_slot cannot be used: its type is real",
  );
  dialect.hasSlots = [{ name: "else" }];
  await assertRejects(
    () =>
      openStore(new MemoryClient({ answer: () => Promise.resolve(result()) }), {
        dialect,
        initSchema: true,
      }),
    SchemaError,
    "table cosid_slot lacks the columns slot",
  );
});

Deno.test("columns whose texts only the library makes may take texts for equal", async () => {
  const dialect = new MemoryDialect();
  dialect.hasSlots = [{ name: "slot", inexact: "it ignores case" }];
  const open = async () => (await openStore(new MemoryClient(), { dialect })).warnings.length;
  assertEquals(await open(), 1);
  dialect.tokens = new Set(["slot"]);
  assertEquals(await open(), 0);
});

Deno.test("weak settings and inexact columns are reported once each, also as events", async () => {
  const dialect = new MemoryDialect();
  dialect.weak = ["fsync is off."];
  dialect.has = [
    { name: "range_key", inexact: "it ignores case" },
    { name: "next_value" },
    { name: "sealed" },
    { name: "not of the store's", inexact: "it ignores case" },
  ];
  const events: StoreEvent[] = [];
  const store = await openStore(new MemoryClient(), {
    dialect,
    rangeTable: "shop.Order",
    onEvent: (event) => events.push(event),
  });
  assertEquals(store.warnings.length, 2);
  assertEquals(store.warnings[0], "fsync is off.");
  for (const word of ["range_key", "shop.Order", "it ignores case"]) {
    assertStringIncludes(store.warnings[1] ?? "", word);
  }
  assertEquals(events, store.warnings.map((message) => ({ type: "warning", message })));
});

Deno.test("an observer that throws changes nothing", async () => {
  const dialect = new MemoryDialect();
  dialect.weak = ["fsync is off."];
  let heard = 0;
  const store = await openStore(new MemoryClient(), {
    dialect,
    onEvent() {
      heard++;
      throw new Error("the observer failed");
    },
  });
  assertEquals(await store.ranges.reserve("order", 1), { start: 1n, end: 2n });
  assertEquals(heard, 2);
});

Deno.test("opening ends by its deadline, also when the driver never answers", async () => {
  const clock = new HandRuntime();
  const client = new MemoryClient();
  Object.defineProperty(client, "server", { value: () => new Promise(() => {}) });
  Object.defineProperty(client, "close", { value: () => new Promise(() => {}) });
  const options = { dialects: [new MemoryDialect()], runtime: clock };
  const open = openStore(client, { ...options, timeoutMs: 70 });
  await settle();
  clock.advance(70);
  const error = await assertRejects(() => open, TimeoutError);
  assertEquals(error.timeoutMs, 70);
  const abort = new AbortController();
  const aborted = openStore(client, { ...options, signal: abort.signal });
  const reason = new Error("no longer wanted");
  abort.abort(reason);
  assertStrictEquals(await assertRejects(() => aborted), reason);
  assertEquals(clock.pending, 0);
});

Deno.test("a call has the store's timeout unless it says otherwise", async () => {
  const clock = new HandRuntime();
  const client = new MemoryClient({ answer: () => new Promise(() => {}) });
  for (
    const [ofStore, ofCall, expected] of [[undefined, undefined, 5_000], [70, undefined, 70], [
      70,
      90,
      90,
    ]]
  ) {
    const store = await openStore(client, {
      dialects: [new MemoryDialect()],
      runtime: clock,
      timeoutMs: ofStore,
    });
    const call = store.ranges.reserve("order", 1, { timeoutMs: ofCall });
    await settle();
    clock.advance(expected ?? 0);
    const error = await assertRejects(() => call, TimeoutError);
    assertEquals([error.timeoutMs, error.outcome], [expected, "unknown"]);
  }
});

Deno.test("what the driver says becomes an error of its kind, its outcome unknown or not", async () => {
  const clock = new HandRuntime();
  for (
    const [kind, attempts] of [
      ["connection", 1],
      ["other", 1],
      ["readOnly", 1],
      ["deadlock", 10],
      ["serialization", 10],
    ] as const
  ) {
    const client = new MemoryClient({ answer: () => Promise.reject(new Error(`kind ${kind}`)) });
    const events: StoreEvent[] = [];
    const store = await openStore(client, {
      dialects: [new MemoryDialect()],
      runtime: clock,
      onEvent: (event) => events.push(event),
    });
    client.sent.length = 0;
    const error = await assertRejects(
      () => clock.drive(store.ranges.reserve("order", 1)),
      StoreError,
    );
    assertEquals([error.kind, error.statement], [kind, "range.reserve"]);
    assert(!error.message.includes(`kind ${kind}`));
    assertEquals(client.sent.length, attempts);
    assertEquals(events.filter(({ type }) => type === "retry").length, attempts - 1);
  }
});

Deno.test("a driver that throws instead of rejecting is caught", async () => {
  const client = new MemoryClient({
    answer: () => {
      throw new Error("kind connection");
    },
  });
  const store = await openStore(client, { dialects: [new MemoryDialect()] });
  const error = await assertRejects(() => store.ranges.reserve("order", 1), StoreError);
  assertEquals(error.kind, "connection");
});

Deno.test("an answer that cannot be what was written hands nothing out", async () => {
  const clock = new HandRuntime();
  let next: unknown = 100n;
  const client = new MemoryClient({ answer: () => Promise.resolve(result({ next_value: next })) });
  const store = await openStore(client, { dialects: [new MemoryDialect()], runtime: clock });
  assertEquals(await store.ranges.reserve("order", 10), { start: 90n, end: 100n });
  for (next of [100n, 109n, 0n, -5n, "9"]) {
    const error = await assertRejects(
      () => store.ranges.reserve("order", 10),
      ReserveConflictError,
    );
    assertEquals(error.returned, BigInt(String(next)));
    assertEquals(error.behindBy, 110n - BigInt(String(next)));
  }
  next = 110n;
  assertEquals(await store.ranges.reserve("order", 10), { start: 100n, end: 110n });
  next = 5n;
  await assertRejects(() => store.ranges.reserve("another", 10), ReserveConflictError);
});

Deno.test("the calls of a store share a timer, and two stores share none", async () => {
  const clock = new HandRuntime();
  const client = new MemoryClient({ answer: () => new Promise(() => {}) });
  const options = { dialects: [new MemoryDialect()], runtime: clock, timeoutMs: 10 };
  const [first, second] = [await openStore(client, options), await openStore(client, options)];
  assertEquals(clock.pending, 0);
  const calls = [first.ranges.reserve("a", 1), first.ranges.reserve("b", 1)];
  assertEquals(clock.pending, 1);
  calls.push(second.ranges.reserve("a", 1));
  assertEquals(clock.pending, 2);
  const ended = await clock.drive(Promise.allSettled(calls));
  assertEquals(ended.map(({ status }) => status), ["rejected", "rejected", "rejected"]);
});
