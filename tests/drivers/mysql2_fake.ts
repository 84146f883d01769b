/**
 * A pool like one of `mysql2`, whose server is a function of the test.
 *
 * @module
 */

import type {
  Mysql2Callback,
  Mysql2Connection,
  Mysql2Pool,
  Mysql2Query,
} from "../../dialects/mysql/mod.ts";

/** What the server sends: an error, a header, or rows with the names of their columns. */
export type Reply = Error | Header | { names: readonly string[]; rows: readonly unknown[][] };

/** What the driver makes of an answer without rows. */
export interface Header {
  affectedRows: number;
  insertId: number | string;
  serverStatus: number;
}

/** Outside of a transaction, and inside one. */
export const idle = 2;
export const open = 3;

/** A header with a generated key and the flags of a state. */
export function header(insertId: number | string = 0, serverStatus = idle): Header {
  return { affectedRows: 1, insertId, serverStatus };
}

/** An error as the driver makes one of what the server said. */
export function serverError(errno: number, message = "what the server said"): Error {
  return Object.assign(new Error(message), { errno, code: `ER_${errno}` });
}

/** A connection of the pool. */
export class FakeConnection implements Mysql2Connection {
  readonly config: { charsetNumber?: number; queryFormat?: (text: string) => string } = {
    charsetNumber: 224,
  };
  /** The texts that it was asked to run, in order, and whether each was prepared. */
  readonly sent: { sql: string; values: readonly unknown[]; prepared: boolean }[] = [];
  /** How often it was put back, and destroyed. */
  released = 0;
  destroyed = 0;
  readonly #reply: (query: Mysql2Query) => Reply | undefined | Promise<Reply>;
  /** How often each callback is called. */
  callbacks = 1;

  constructor(reply: (query: Mysql2Query) => Reply | undefined | Promise<Reply>) {
    this.#reply = reply;
  }

  query(query: Mysql2Query, callback: Mysql2Callback): void {
    this.#run(query, callback, false);
  }

  execute(query: Mysql2Query, callback: Mysql2Callback): void {
    this.#run(query, callback, true);
  }

  format(text: string): string {
    return this.config.queryFormat?.(text) ?? text;
  }

  release(): void {
    this.released++;
  }

  destroy(): void {
    this.destroyed++;
  }

  async #run(query: Mysql2Query, callback: Mysql2Callback, prepared: boolean): Promise<void> {
    this.sent.push({ sql: query.sql.trim(), values: query.values, prepared });
    const reply = await this.#reply(query);
    // A server that never answers.
    if (reply === undefined) return;
    for (let count = 0; count < this.callbacks; count++) {
      if (reply instanceof Error) callback(reply, undefined, undefined);
      else if ("names" in reply) {
        callback(null, reply.rows, reply.names.map((name) => ({ name })));
      } else callback(null, reply, undefined);
    }
  }
}

/** A pool with one connection, which it hands out at once, or when the test says so. */
export class FakePool implements Mysql2Pool {
  readonly config = {};
  readonly only: FakeConnection;
  /** Hands out the connection, where the test has asked the pool to wait. */
  waiting: (() => void)[] | undefined;

  constructor(reply: (query: Mysql2Query) => Reply | undefined | Promise<Reply>) {
    this.only = new FakeConnection(reply);
  }

  getConnection(callback: (error: null, connection: FakeConnection) => void): void {
    const hand = () => callback(null, this.only);
    if (this.waiting === undefined) queueMicrotask(hand);
    else this.waiting.push(hand);
  }

  execute(): void {}
}
