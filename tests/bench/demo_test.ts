import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { type ChildProcess, spawn } from "node:child_process";
import { chmod, readdir } from "node:fs/promises";
import { createServer } from "node:net";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { clearTimeout, setTimeout } from "node:timers";
import { fileURLToPath } from "node:url";
import { IdSet } from "../../bench/demo_ids.ts";
import {
  FrameReader,
  idFrame,
  snowflakeFrame,
  type WorkerReport,
  type WorkerSettings,
} from "../../bench/demo_pipe.ts";
import { type Drawn, reportLines, type Share } from "../../bench/demo_report.ts";
import { type ReceivedIds, Worker } from "../../bench/demo_workers.ts";
import { onDatabase } from "../../bench/client.ts";
import { Identifier, openStore, sql, type Statement, StoreError } from "../../mod.ts";
import { askedServers } from "../servers/asked.ts";
import { run } from "../servers/process.ts";
import { removeFolder, temporaryFolder } from "../servers/temporary.ts";
import { until } from "../servers/until.ts";
import { startTdsDatabase } from "../tds/database.ts";

interface Ended {
  /** Null if a signal ended it. */
  readonly code: number | null;
  readonly lines: readonly string[];
  readonly errors: readonly string[];
}

interface Demo {
  readonly pid: number;
  readonly ended: Promise<Ended>;
  /** Resolves with the name of its table of ranges when its processes draw. */
  drawing(): Promise<string>;
}

interface Fixture {
  /** A folder that is empty at first, where the demo makes its temporary ones. */
  readonly folder: string;
  /** Starts a demo, which is killed if it does not end. */
  start(...args: readonly string[]): Demo;
}

function test(name: string, body: (fixture: Fixture) => Promise<void>): void {
  Deno.test(name, async () => {
    const folder = await temporaryFolder("demo");
    const demos: { child: ChildProcess; ended: Promise<Ended> }[] = [];
    try {
      // PostgreSQL runs as another user where the tests are root.
      await chmod(folder, 0o755);
      await body({
        folder,
        start(...args) {
          const demo = startDemo(args, folder);
          demos.push(demo);
          return demo;
        },
      });
    } finally {
      for (const { child } of demos) child.kill("SIGKILL");
      await Promise.all(demos.map(({ ended }) => ended));
      await removeFolder(folder);
    }
  });
}

function startDemo(args: readonly string[], folder: string): Demo & { child: ChildProcess } {
  const program = fileURLToPath(new URL("../../bench/demo.ts", import.meta.url));
  const child = spawn(process.execPath, ["run", "-A", "-q", program, ...args], {
    env: { ...process.env, TMPDIR: folder },
    // In a process group of its own, as a shell starts it.
    detached: true,
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), 60_000);
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (piece) => stdout += piece);
  child.stderr.on("data", (piece) => stderr += piece);
  const ended = new Promise<Ended>((resolve) => {
    child.on("close", (code) => {
      clearTimeout(timer);
      resolve({ code, lines: linesOf(stdout), errors: linesOf(stderr) });
    });
  });
  const table = () => {
    if (child.exitCode !== null) throw new Error(`Cannot wait for the demo: it ended: ${stderr}`);
    if (stdout.includes("draw ids")) return /^tables (\w+)/m.exec(stdout)?.[1];
  };
  const drawing = () => until(table, { what: "the demo to draw" });
  return { child, pid: child.pid ?? 0, ended, drawing };
}

function linesOf(text: string): string[] {
  return text.trimEnd().split("\n").filter((line, _, { length }) => length > 1 || line !== "");
}

function tableOf({ lines }: Ended): string {
  return /^tables (\w+)/m.exec(lines.join("\n"))?.[1] ?? "";
}

async function execute(url: string, statement: Statement): Promise<void> {
  await onDatabase(url, async (database) => {
    await database.query(statement, { name: "test", deadline: database.deadline({}) });
  });
}

/** Asserts that the tables of a demo are gone. */
async function assertDropped(url: string, rangeTable: string): Promise<void> {
  for (const table of [rangeTable, `${rangeTable}_slot`, `${rangeTable}_namespace`]) {
    const select = sql`select count(*) from ${Identifier.parse(table, "table")}`;
    const error = await assertRejects(() => execute(url, select), StoreError, undefined, table);
    assertEquals(error.kind, "missingTable", table);
  }
}

/** Asserts what a demo in which every id came once says. */
function assertComplete({ code, errors, lines }: Ended): void {
  assertEquals([code, errors], [0, []]);
  assertMatch(lines.at(-1) ?? "", /^[1-9]\d* ids from 4 processes, 0 duplicates$/);
  assertMatch(lines.at(-3) ?? "", /^range ids from 1 to [\d,]+, 0 missing$/);
  assertMatch(
    lines.at(-4) ?? "",
    /^process 2 left (no gap|a gap of [\d,]+ range ids)/,
  );
  assertMatch(lines.at(-5) ?? "", /^process 2 was killed .*, process 5 drew from its slot after /);
  for (const line of lines.filter((line) => !line.startsWith("warning"))) {
    assert(line.length <= 80, line);
  }
}

/** The whole numbers of a line of the table: the line of process 1, or of "all". */
function cellsOf({ lines }: Ended, process: string): number[] {
  const line = lines.find((line) => line.trimStart().startsWith(`${process} `)) ?? "";
  return line.trim().split(/ {2,}/).slice(1).map((cell) => Number(cell.replaceAll(",", "")));
}

/** Whether no process has a file open: only then can it leave write-ahead logging. */
function isFree(file: string): boolean {
  const database = new DatabaseSync(file, { timeout: 0 });
  try {
    return database.prepare("pragma journal_mode = delete").get()?.journal_mode === "delete";
  } catch {
    return false;
  } finally {
    database.close();
  }
}

const databases = askedServers().filter(({ name }) => name !== "pglite");

for (const { name, url } of databases) {
  test(`${name} › a demo gets every id back, finds no duplicate, and drops its tables`, async ({ start }) => {
    const ended = await start(url, "--seconds", "0.5").ended;
    assertComplete(ended);
    const [snowflakes = 0, ranges = 0] = cellsOf(ended, "all");
    assert(snowflakes > 0 && ranges > 0);
    assertEquals(Number.parseInt(ended.lines.at(-1) ?? ""), snowflakes + ranges);
    assertEquals(cellsOf(ended, "5")[0], cellsOf(ended, "2 killed")[0], "the slots");
    await assertDropped(url, tableOf(ended));
  });

  test(`${name} › ids of either kind that a demo is given twice are named, and fail it`, async ({ start, folder }) => {
    const args = ["--server", name, "--plant-duplicate", "--seconds", "0.5"];
    const { code, lines } = await start(...args).ended;
    assertEquals(code, 1);
    assertMatch(lines.at(-1) ?? "", /^\d+ ids from 4 processes, 2 duplicates: \d{1,9}, \d{18,19}$/);
    assertEquals(await readdir(folder), []);
  });

  test(`${name} › an interrupted demo drops its tables`, async ({ start }) => {
    const demo = start(url, "--seconds", "600");
    const table = await demo.drawing();
    process.kill(-demo.pid, "SIGINT");
    const { code, errors } = await demo.ended;
    assertEquals([code, errors], [130, ["demo: interrupted"]]);
    await assertDropped(url, table);
  });
}

test("a demo runs over mssql", async ({ start }) => {
  await using server = await startTdsDatabase();
  const ended = await start(server.url, "--seconds", "0.5").ended;
  assertComplete(ended);
  await assertDropped(server.url, tableOf(ended));
});

test("a demo makes no other tables than those that it drops", async ({ start, folder }) => {
  const file = `${folder}/test.db`;
  assertComplete(await start(`sqlite:${file}`, "--seconds", "0.5").ended);
  const database = new DatabaseSync(file);
  assertEquals(database.prepare("select name from sqlite_master").all(), []);
  database.close();
});

test("a demo that is told to end leaves no process", async ({ start, folder }) => {
  const file = `${folder}/test.db`;
  const demo = start(`sqlite:${file}`, "--seconds", "600");
  await demo.drawing();
  assert(!isFree(file));
  process.kill(demo.pid, "SIGTERM");
  assertEquals((await demo.ended).code, 130);
  assert(isFree(file));
});

test("a demo that is told to end leaves no file", async ({ start, folder }) => {
  const demo = start("--seconds", "600");
  await demo.drawing();
  process.kill(demo.pid, "SIGTERM");
  assertEquals((await demo.ended).code, 130);
  assertEquals(await readdir(folder), []);
});

test("a demo that is killed leaves no process", async ({ start, folder }) => {
  const file = `${folder}/test.db`;
  const demo = start(`sqlite:${file}`, "--seconds", "600");
  await demo.drawing();
  process.kill(demo.pid, "SIGKILL");
  await demo.ended;
  await until(() => isFree(file) || undefined, { what: "the processes to end" });
});

test("a process that fails is named, and ends the demo", async ({ start, folder }) => {
  const url = `sqlite:${folder}/test.db`;
  const demo = start(url, "--seconds", "600");
  const table = Identifier.parse(await demo.drawing(), "rangeTable");
  await execute(url, sql`drop table ${table}`);
  const { code, errors } = await demo.ended;
  assertEquals([code, errors.length], [1, 1]);
  assertMatch(errors[0] ?? "", /^demo: process [1-4] ended with code 1: Cannot run range\.reserve/);
});

/** The settings of a worker, on a file whose table exists. */
async function settingsOn(file: string): Promise<WorkerSettings> {
  const url = `sqlite:${file}`;
  const store = await openStore(url, { initSchema: true });
  await store.close();
  const tables = {
    rangeTable: "cosid_range",
    slotTable: "cosid_slot",
    namespaceTable: "cosid_namespace",
  };
  const drawing = { key: "a", sizes: [1], callers: 1, batch: 1 };
  const slot = { namespace: "a", limit: 1, ownerKey: "a" };
  return { url, tables, ...drawing, ...slot, plantDuplicate: false };
}

function noIds(): ReceivedIds {
  return { ranges: new IdSet(), snowflakes: new IdSet() };
}

test("a process that somebody else kills is named", async ({ folder }) => {
  const settings = await settingsOn(`${folder}/test.db`);
  const worker = new Worker(3, { settings, ids: noIds() });
  await worker.ready;
  worker.go();
  process.kill(worker.pid ?? 0, "SIGKILL");
  await assertRejects(() => worker.done, Error, "process 3 was ended by SIGKILL");
  await worker.end();
});

test("of a process that the demo kills what has arrived counts, without a report", async ({ folder }) => {
  const settings = await settingsOn(`${folder}/test.db`);
  const ids = noIds();
  const worker = new Worker(3, { settings, ids });
  await worker.ready;
  worker.go();
  const both = () => ids.ranges.size > 0 && ids.snowflakes.size > 0 || undefined;
  await until(both, { what: "ids of both kinds" });
  worker.kill();
  const share = await worker.done;
  assertEquals([share.number, share.slot, share.report], [3, 0, undefined]);
  assertEquals([share.ids, share.snowflakes], [ids.ranges.size, ids.snowflakes.size]);
  await worker.end();
});

test("a process that is told to go and to stop at once draws, reports and frees its slot", async ({ folder }) => {
  const settings = await settingsOn(`${folder}/test.db`);
  const ids = noIds();
  const worker = new Worker(1, { settings, ids });
  worker.go();
  worker.stop();
  const { report } = await worker.done;
  assertEquals([ids.ranges.size, ids.snowflakes.size, report?.reserved], [1, 1, 1]);
  await using store = await openStore(settings.url);
  assertEquals((await store.slots.inspect("a"))?.slots.map(({ state }) => state), ["free"]);
});

Deno.test("ranges and snowflake ids arrive each as what they are", () => {
  const received: (bigint | string)[] = [];
  const reader = new FrameReader({
    onRange: (count, kind) => received.push(`${count} ${kind}`),
    onId: (high, low) => received.push(BigInt(high) << 32n | BigInt(low)),
    onMessage: ({ type }) => received.push(type),
  });
  const large = 2n ** 63n - 1n;
  for (const frame of [idFrame(1n, 3n), snowflakeFrame([large, 7n]), idFrame(3n, 4n)]) {
    reader.push(frame);
  }
  assertEquals(received, ["2 range", 1n, 2n, "2 snowflake", large, 7n, "1 range", 3n]);
});

/** What the demo says of range ids, of two processes and one that was killed. */
function saidOf(
  { given, reserved, nextValue }: { given: number; reserved: number; nextValue: bigint },
): (string | undefined)[] {
  const ids = noIds();
  for (let id = 1; id <= given + 20; id++) ids.ranges.add(0, id);
  const report: WorkerReport = {
    reserved: 10,
    statements: 1,
    retries: 0,
    conflicts: 0,
    slowestMs: 1,
  };
  const share: Share = {
    number: 1,
    slot: 0,
    ids: 10,
    ranges: 1,
    smallest: 10,
    largest: 10,
    snowflakes: 5,
    report,
  };
  const drawn: Drawn = {
    shares: [
      { ...share, ids: given, report: { ...report, reserved } },
      { ...share, number: 2, slot: 1, report: undefined },
      { ...share, number: 3, slot: 1 },
    ],
    ids,
    processes: 2,
    mostUnderWay: 100,
    replaced: { killedMs: 500, begunMs: 750 },
    durationMs: 1_000,
  };
  return reportLines(drawn, nextValue).slice(-4, -2);
}

Deno.test("what the killed process had under way is its gap, and all else that nobody gave is missing", () => {
  const gap = (count: number) =>
    count === 0
      ? "process 2 left no gap in the range ids"
      : `process 2 left a gap of ${count} range ids: reserved and never given`;
  const cases = [
    { given: 10, reserved: 10, nextValue: 31n, says: [0, 0] },
    { given: 10, reserved: 10, nextValue: 131n, says: [100, 0] },
    { given: 10, reserved: 10, nextValue: 132n, says: [100, 1] },
    { given: 7, reserved: 10, nextValue: 31n, says: [0, 3] },
    { given: 7, reserved: 10, nextValue: 71n, says: [40, 3] },
    { given: 10, reserved: 10, nextValue: 30n, says: [0, -1] },
  ];
  for (const { says: [left = 0, missing = 0], nextValue, ...counts } of cases) {
    const range = `range ids from 1 to ${nextValue - 1n}, ${missing} missing`;
    assertEquals(saidOf({ ...counts, nextValue }), [gap(left), range]);
  }
});

test("a process that waits for the others ends when the demo is killed", async ({ folder }) => {
  const file = `${folder}/test.db`;
  const program = `
    import process from "node:process";
    import { IdSet } from ${JSON.stringify(new URL("../../bench/demo_ids.ts", import.meta.url))};
    import { Worker } from ${
    JSON.stringify(new URL("../../bench/demo_workers.ts", import.meta.url))
  };
    const settings = ${JSON.stringify(await settingsOn(file))};
    const ids = { ranges: new IdSet(), snowflakes: new IdSet() };
    await new Worker(1, { settings, ids }).ready;
    process.kill(process.pid, "SIGKILL");
  `;
  await assertRejects(() => run([process.execPath, "eval", program]));
  await until(() => isFree(file) || undefined, { what: "the process to end" });
});

test("arguments that are not allowed are refused in one line", async ({ start }) => {
  const refused: readonly (readonly [string, ...string[]])[] = [
    ["--fast", "--fast"],
    ["--seconds", "--seconds"],
    ["--seconds", "--seconds", "0"],
    ["--seconds", "--seconds", "soon"],
    ["--server", "--server", "oracle"],
    ["--server", "--server", "sqlite", "sqlite:file"],
    ["scheme", "oracle://user:secret@localhost/shop"],
    ["one URL", "sqlite:a", "sqlite:b"],
    ["inside one process", "sqlite::memory:"],
    ["inside one process", "pglite:folder"],
  ];
  for (const [word, ...args] of refused) {
    const { code, lines, errors } = await start(...args).ended;
    assertEquals([code, lines, errors.length], [2, [], 1], args.join(" "));
    assertMatch(errors[0] ?? "", /^demo: /);
    assertStringIncludes(errors[0] ?? "", word);
    assert(!errors[0]?.includes("secret"));
  }
});

test("a database that cannot be reached or refuses fails the demo in one line", async ({ start }) => {
  const refusing = createServer((socket) => {
    const fields = 'SFATAL\0VFATAL\0C28P01\0Mpassword authentication failed for user "marcus"\0\0';
    const reply = Buffer.alloc(5 + fields.length);
    reply.write("E");
    reply.writeUInt32BE(4 + fields.length, 1);
    reply.write(fields, 5);
    socket.once("data", () => socket.end(reply)).on("error", () => {});
  });
  await new Promise<void>((resolve) => refusing.listen(0, "127.0.0.1", resolve));
  const address = refusing.address();
  assert(typeof address === "object" && address !== null);
  const urlAt = (port: number) => `postgres://marcus:secret@127.0.0.1:${port}/shop`;
  try {
    const refused = await start(urlAt(address.port)).ended;
    assertEquals([refused.code, refused.lines, refused.errors.length], [1, [], 1]);
    assertStringIncludes(refused.errors[0] ?? "", "28P01");
    const unreachable = await start(urlAt(1)).ended;
    assertEquals([unreachable.code, unreachable.lines, unreachable.errors.length], [1, [], 1]);
    assertStringIncludes(unreachable.errors[0] ?? "", "ECONNREFUSED");
    const absent = await start("sqlite:/no/such/folder/file").ended;
    assertEquals([absent.code, absent.lines, absent.errors.length], [1, [], 1]);
    for (const { errors } of [refused, unreachable]) assert(!/marcus|secret/.test(errors.join()));
  } finally {
    refusing.close();
  }
});

test("the help names every option", async ({ start }) => {
  const { code, lines } = await start("--help").ended;
  assertEquals(code, 0);
  for (const option of ["URL", "--server", "--seconds", "--plant-duplicate", "--help"]) {
    assertStringIncludes(lines.join("\n"), option);
  }
});
