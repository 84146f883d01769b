/**
 * A proxy that speaks SQL: it takes the statements of its clients in text, sends each to the server,
 * and answers in its own words, so that a test can make it lose or replace a generated key. It is
 * mysql2's server side, with a connection to the server for each client's; prepared statements it
 * refuses.
 *
 * @module
 */

import mysql from "mysql2";
import { anything } from "../databases/driver.ts";
import { freePort } from "./temporary.ts";

/** What becomes of a generated key on its way to the client. */
export type AlterKey = (key: string) => string | number;

/** A proxy that runs. */
export interface MysqlProxy extends AsyncDisposable {
  /** The server's URL through the proxy. */
  readonly url: string;
  /** The statements that it was given, in order. */
  readonly statements: readonly string[];
  /** What becomes of generated keys; set it whenever the test wants. */
  alter: AlterKey;
}

/** The part of a connection of mysql2's server side that its types leave out. */
interface ClientConnection {
  on(event: "query" | "stmt_prepare", listener: (text: string) => void): void;
  on(event: "error" | "close" | "quit", listener: () => void): void;
  serverHandshake(greeting: object): void;
  writeColumns(columns: readonly object[]): void;
  writeTextRow(cells: readonly (string | null)[]): void;
  writeEof(warnings?: number, status?: number): void;
  writeError(error: { code: number; message: string }): void;
  close(): void;
  readonly stream: { write(bytes: Uint8Array): void };
  /** The number of the packet that is next, on either side: each statement begins anew. */
  sequenceId: number;
}

interface Field {
  string(): string | null;
}

interface Header {
  readonly affectedRows: number;
  readonly insertId: string | number | bigint;
  readonly serverStatus: number;
}

/** What answers a statement without rows. The driver's own writes no key beyond 2^53. */
function okPacket({ affectedRows, insertId, serverStatus }: Header): Uint8Array {
  const packet = new DataView(new ArrayBuffer(4 + 1 + 9 + 9 + 4));
  packet.setUint8(0, packet.byteLength - 4);
  packet.setUint8(3, 1);
  packet.setUint8(5, 0xfe);
  packet.setBigUint64(6, BigInt(affectedRows), true);
  packet.setUint8(14, 0xfe);
  packet.setBigUint64(15, BigInt.asUintN(64, BigInt(insertId)), true);
  packet.setUint16(23, serverStatus, true);
  return new Uint8Array(packet.buffer);
}

const greeting = {
  protocolVersion: 10,
  serverVersion: "8.4.0",
  connectionId: 1,
  statusFlags: 2,
  characterSet: 255,
  // The long password, long flag, protocol 4.1, transactions and secure connection; neither the end
  // of EOF packets nor session tracking.
  capabilityFlags: 0x0000_a205 | 0x8 | 0x80000,
};

/** Starts a proxy before a server. */
export async function startMysqlProxy(url: string): Promise<MysqlProxy> {
  const port = await freePort();
  const statements: string[] = [];
  const clients = new Set<{ close(): void }>();
  const proxy = { alter: (key: string): string | number => key };
  const server = mysql.createServer((connection) => {
    const client = anything<ClientConnection>(connection);
    const upstream = mysql.createConnection({ uri: url.replace(/^mariadb:/, "mysql:") });
    upstream.on("error", () => client.close());
    const both = {
      close() {
        clients.delete(both);
        upstream.destroy();
        client.close();
      },
    };
    clients.add(both);
    for (const event of ["error", "close", "quit"] as const) client.on(event, both.close);
    client.on(
      "stmt_prepare",
      () => client.writeError({ code: 1295, message: "not prepared here" }),
    );
    client.on("query", (text) => {
      statements.push(text);
      const typeCast = (field: Field) => field.string();
      const options = { sql: text, rowsAsArray: true, typeCast, bigNumberStrings: true };
      upstream.query({ ...options, supportBigNumbers: true }, (error, result, fields) => {
        if (error !== null) {
          const { errno = 1105, message } = error;
          client.writeError({ code: errno, message });
        } else if (Array.isArray(result)) {
          client.writeColumns(fields ?? []);
          for (const cells of anything<(string | null)[][]>(result)) client.writeTextRow(cells);
          client.writeEof();
        } else {
          const { insertId, ...header } = anything<Header>(result);
          const key = BigInt(proxy.alter(String(insertId)));
          client.stream.write(okPacket({ ...header, insertId: key }));
        }
        client.sequenceId = 0;
      });
    });
    client.serverHandshake({
      ...greeting,
      authCallback(_: object, done: () => void) {
        done();
        client.sequenceId = 0;
      },
    });
  });
  server.listen(port);
  const own = new URL(url);
  own.port = String(port);
  return Object.assign(proxy, {
    url: own.href,
    statements,
    [Symbol.asyncDispose]: async () => {
      for (const client of [...clients]) client.close();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  });
}
