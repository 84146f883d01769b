/**
 * A stand-in for SQL Server: it speaks TDS on a loopback port, so that `mssql` and `tedious` really
 * connect, and their bytes are read.
 *
 * It knows logins, batches, calls of `sp_executesql`, transactions and attention (what the driver sends
 * to cancel). What a statement answers is up to the test. It cannot show what SQL Server makes of a
 * statement, nor how it locks, nor that it sends exactly these tokens: only that the driver takes them.
 *
 * @module
 */

import type { Buffer } from "node:buffer";
import { Buffer as Bytes } from "node:buffer";
import { createServer, type Socket } from "node:net";
import {
  done,
  errorToken,
  loginAnswer,
  Messages,
  messageType,
  packets,
  type Parameter,
  preloginAnswer,
  readBatch,
  readCall,
  readLogin,
  readTransaction,
  type Result,
  resultTokens,
  type ServerError,
  transactionOperation,
  transactionToken,
} from "./bytes.ts";

/** What a client asked for. */
export interface Asked {
  /** A batch, a call of `sp_executesql`, or the beginning or end of a transaction. */
  readonly kind: "batch" | "call" | "begin" | "commit" | "rollback";
  /** The text; empty for a transaction's beginning or end. */
  readonly text: string;
  /** The declaration of the parameters. */
  readonly declaration: string;
  readonly parameters: readonly Parameter[];
  /** The isolation level that a transaction begins with. */
  readonly isolation: number;
  /** The connection that it came on. */
  readonly session: TdsSession;
  /** Aborts when the client cancels it, or goes. */
  readonly signal: AbortSignal;
}

/** What a client is answered. */
export interface Answered {
  /** The results, in order. */
  readonly results?: readonly Result[];
  /** How many rows the driver is told of, one for each statement without a result. */
  readonly counts?: readonly number[];
  readonly error?: ServerError;
  /** Whether the server has rolled the transaction back by itself. */
  readonly rolledBack?: boolean;
}

/** A connection. */
export interface TdsSession {
  readonly id: number;
  /** How deep it is inside transactions: `@@trancount`. */
  transactions: number;
  /** Whether it is in implicit mode. */
  implicit: boolean;
  /** Resolves when it has ended. */
  readonly ended: Promise<void>;
  /** Ends it, as a server that goes away does. */
  cut(): void;
}

/** How it answers. */
export type Answer = (asked: Asked) => Answered | Promise<Answered>;

/** Credentials that are let in. */
export const user = "sa";
/** Its password. */
export const password = "S3cr3t-of-the-stand-in";

/** A stand-in that listens. */
export interface TdsServer extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /** What was asked, in order, without what `tedious` sends when it has connected. */
  readonly asked: readonly Asked[];
  readonly sessions: ReadonlySet<TdsSession>;
  /** How many messages came: the turns. */
  readonly turns: number;
  /** How many of them were to cancel. */
  readonly attentions: number;
  forget(): void;
}

/** Starts one. */
export async function startTds(answer: Answer): Promise<TdsServer> {
  const asked: Asked[] = [];
  const sessions = new Set<TdsSession>();
  const sockets = new Set<Socket>();
  let [turns, attentions, ids] = [0, 0, 0];
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.setNoDelay(true);
    const session: TdsSession = {
      id: ++ids,
      transactions: 0,
      implicit: false,
      ended: new Promise((resolve) => socket.once("close", () => resolve())),
      cut: () => socket.destroy(),
    };
    sessions.add(session);
    const connection = new Connection(socket, session, (one) => {
      asked.push(one);
      return answer(one);
    });
    socket.on("data", (chunk) => {
      for (const { type, content } of connection.messages.take(chunk as Buffer)) {
        turns++;
        if (type === messageType.attention) attentions++;
        connection.receive(type, content);
      }
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      connection.end();
      sessions.delete(session);
      sockets.delete(socket);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    url: `sqlserver://${user}:${password}@127.0.0.1:${port}/shop?encrypt=false`,
    port,
    asked,
    sessions,
    get turns() {
      return turns;
    },
    get attentions() {
      return attentions;
    },
    forget() {
      asked.length = 0;
      [turns, attentions] = [0, 0];
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

class Connection {
  readonly messages = new Messages();
  readonly #socket: Socket;
  readonly #session: TdsSession;
  readonly #answer: Answer;
  #pending: { controller: AbortController; done: Promise<void> } | undefined;
  #ready = false;
  #descriptor = Bytes.alloc(8);

  constructor(socket: Socket, session: TdsSession, answer: Answer) {
    this.#socket = socket;
    this.#session = session;
    this.#answer = answer;
  }

  receive(type: number, content: Buffer): void {
    switch (type) {
      case messageType.prelogin:
        return this.#send(preloginAnswer());
      case messageType.login:
        return this.#login(content);
      case messageType.attention:
        return void this.#attend();
      case messageType.batch: {
        const { text } = readBatch(content);
        if (this.#ready) return this.#ask({ kind: "batch", text });
        // What the driver sends first sets the session up; implicit mode is part of it.
        this.#ready = true;
        this.#session.implicit = text.includes("set implicit_transactions on");
        return this.#send(done(0xfd));
      }
      case messageType.call: {
        const { text, declaration, parameters } = readCall(content);
        return this.#ask({ kind: "call", text, declaration, parameters });
      }
      case messageType.transaction: {
        const { operation, isolation } = readTransaction(content);
        const [kind] = Object.entries(transactionOperation)
          .find(([, code]) => code === operation) ?? [];
        if (kind === undefined) throw new TypeError(`The operation ${operation} is not known`);
        return this.#ask({ kind: kind as keyof typeof transactionOperation, isolation });
      }
    }
    throw new TypeError(`The message type ${type} is not known`);
  }

  end(): void {
    this.#pending?.controller.abort();
  }

  #login(content: Buffer): void {
    const login = readLogin(content);
    if (login.user === user && login.password === password) {
      return this.#send(loginAnswer(login.database || "master"));
    }
    const message = `Login failed for user '${login.user}'.`;
    this.#send(Bytes.concat([errorToken({ number: 18456, message }), done(0xfd, { error: true })]));
  }

  #ask(asked: Pick<Asked, "kind"> & Partial<Asked>): void {
    const controller = new AbortController();
    const complete: Asked = {
      text: "",
      declaration: "",
      parameters: [],
      isolation: 0,
      session: this.#session,
      signal: controller.signal,
      ...asked,
    };
    const run = async () => {
      let answered: Answered;
      try {
        answered = await this.#answer(complete);
      } catch (error) {
        const message = error instanceof Error ? error.stack ?? error.message : String(error);
        answered = { error: { number: 50000, message } };
      }
      this.#pending = undefined;
      if (controller.signal.aborted) answered = { rolledBack: answered.rolledBack };
      this.#send(this.#tokens(complete, answered));
    };
    this.#pending = { controller, done: run() };
  }

  /** Ends what is under way, which has an answer of its own, and then says so. */
  async #attend(): Promise<void> {
    const pending = this.#pending;
    pending?.controller.abort();
    await pending?.done;
    this.#send(done(0xfd, { attention: true }));
  }

  #tokens({ kind }: Asked, { results = [], counts = [], error, rolledBack }: Answered): Buffer {
    const parts: Buffer[] = [];
    const session = this.#session;
    if (kind === "begin" || kind === "commit" || kind === "rollback") {
      if (error === undefined) parts.push(...this.#transact(kind));
      if (error !== undefined) parts.push(errorToken(error));
      return Bytes.concat([...parts, done(0xfd, { error: error !== undefined })]);
    }
    const inner = kind === "call" ? 0xff : 0xfd;
    for (const count of counts) parts.push(done(inner, { more: true, count }));
    for (const result of results) {
      parts.push(resultTokens(result), done(inner, { more: true, count: result.rows.length }));
    }
    if (error !== undefined) parts.push(errorToken(error));
    if (rolledBack && session.transactions > 0) {
      session.transactions = 0;
      parts.push(transactionToken("rollback", this.#descriptor));
    }
    if (kind === "call") parts.push(Bytes.from([0x79, 0, 0, 0, 0]));
    parts.push(done(kind === "call" ? 0xfe : 0xfd, { error: error !== undefined }));
    return Bytes.concat(parts);
  }

  #transact(kind: "begin" | "commit" | "rollback"): Buffer[] {
    const session = this.#session;
    if (kind === "begin") {
      if (session.transactions++ > 0) return [];
      this.#descriptor = Bytes.from(crypto.getRandomValues(new Uint8Array(8)));
      return [transactionToken("begin", this.#descriptor)];
    }
    session.transactions = kind === "rollback" ? 0 : Math.max(0, session.transactions - 1);
    return session.transactions > 0 ? [] : [transactionToken(kind, this.#descriptor)];
  }

  #send(content: Buffer): void {
    if (!this.#socket.destroyed) this.#socket.write(packets(content));
  }
}
