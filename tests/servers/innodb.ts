/**
 * What MySQL and MariaDB have in common: the options of their servers, and how they are asked.
 *
 * @module
 */
import type { RowDataPacket } from "mysql2/promise";
import { writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import process from "node:process";

/** Where a server keeps everything, and whether it keeps what it committed through a crash. */
export interface InnodbOptions {
  /** The folder; its data are in `data`. */
  readonly folder: string;
  readonly durable: boolean;
}

/** The options without which a server would read the machine's own, or refuse root as its user. */
export function baseOptions(folder: string): readonly string[] {
  const user = process.getuid?.() === 0 ? ["--user=root"] : [];
  // A server that starts removes the temporary tables of all that share its folder for them.
  return ["--no-defaults", ...user, `--datadir=${join(folder, "data")}`, `--tmpdir=${folder}`];
}

/** The options of a server whose database is called `fencepost`. */
export async function serverOptions(
  { folder, durable }: InnodbOptions,
): Promise<(port: number) => readonly string[]> {
  const init = join(folder, "init.sql");
  await writeFile(init, "create database fencepost character set utf8mb4;\n");
  const relaxed = [
    "--skip-log-bin",
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-flush-method=nosync",
    "--innodb-doublewrite=OFF",
  ];
  return (port) => [
    ...baseOptions(folder),
    "--bind-address=127.0.0.1",
    `--port=${port}`,
    `--socket=${join(folder, "socket")}`,
    `--pid-file=${join(folder, "pid")}`,
    `--init-file=${init}`,
    "--character-set-server=utf8mb4",
    "--max-connections=400",
    ...(durable ? [] : relaxed),
  ];
}

/** What a server says of itself. */
export interface Introduction {
  /** "9.7.4", without what the distribution adds. */
  readonly version: string;
  /** Whether it is a MariaDB. */
  readonly mariadb: boolean;
  /** Whether it keeps its data in a folder of that name. */
  livesIn(folder: string): boolean;
}

/** Asks a server for its version. */
export async function introduce(url: string): Promise<Introduction> {
  // Loaded only when it is used, for every program that can start servers imports this.
  const { createConnection } = await import("mysql2/promise");
  const connection = await createConnection({ uri: url, connectTimeout: 5_000 });
  try {
    const [[row]] = await connection.query<(RowDataPacket & { version: string; folder: string })[]>(
      "select version() as version, @@datadir as folder",
    );
    const { version = "unknown", folder: data = "" } = row ?? {};
    return {
      version: /^[\d.]+/.exec(version)?.[0] ?? version,
      mariadb: /mariadb/i.test(version),
      livesIn: (folder) => data.includes(basename(folder)),
    };
  } finally {
    connection.destroy();
  }
}

/** The release series of a version: "9.7" of "9.7.4". */
export function seriesOf(version: string): string {
  return version.split(".", 2).join(".");
}
