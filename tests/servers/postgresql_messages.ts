/**
 * Reads an unencrypted PostgreSQL connection from the side: which statements the client runs, under
 * which name a statement was prepared, and where the reply to a request ends. Messages may arrive
 * in pieces of any size.
 *
 * @module
 */
import { Buffer } from "node:buffer";

/** A message, once all of it has arrived. */
interface Message {
  /** Its type byte; empty before the connection is set up. */
  readonly type: string;
  readonly body: Buffer;
  /** Where in the bytes last read it ends. */
  readonly end: number;
}

/** What the client said in one message. */
export interface Said {
  /** The message as latin1 text; a Bind also has the SQL of the statement that it names. */
  readonly text: string;
  /** Whether it runs a statement, rather than only naming or preparing one. */
  readonly runs: boolean;
  /** How many replies the server owes up to then, since the connection was opened. */
  readonly repliesBefore: number;
}

const sslRequest = 80877103;
const gssRequest = 80877104;
const cancelRequest = 80877102;

/** Both directions of one connection. */
export class PostgresqlReader {
  readonly #fromClient = new MessageSplitter();
  readonly #fromServer = new MessageSplitter();
  readonly #statements = new Map<string, string>();
  #requests = 0;
  #replies = 0;

  constructor() {
    this.#fromClient.untyped = true;
  }

  /** How many replies of the server have ended. */
  get replies(): number {
    return this.#replies;
  }

  /** Whether these bytes only say goodbye, to which there is no reply. */
  isGoodbye(chunk: Buffer): boolean {
    return chunk.length === 5 && chunk.toString("latin1") === "X\0\0\0\x04";
  }

  /** Reads what the client sent. */
  readClient(chunk: Buffer): Said[] {
    return this.#fromClient.read(chunk, (message) => this.#said(message));
  }

  /** Reads what the server sent; tells where in it each reply ended. */
  readServer(chunk: Buffer): { replies: number; end: number }[] {
    const ends = this.#fromServer.read(chunk, ({ type, end }) => {
      return type === "Z" ? { replies: ++this.#replies, end } : undefined;
    });
    return ends.filter((end) => end !== undefined);
  }

  #said({ type, body }: Message): Said {
    const repliesBefore = this.#requests;
    let text = body.toString("latin1");
    if (type === "") {
      const code = body.readInt32BE(0);
      if (code === sslRequest || code === gssRequest) {
        this.#fromServer.skip += 1;
      } else if (code !== cancelRequest) {
        this.#fromClient.untyped = false;
        this.#requests++;
      }
    } else if (type === "P") {
      const [name = "", sql = ""] = text.split("\0", 2);
      this.#statements.set(name, sql);
    } else if (type === "B") {
      const [, name = ""] = text.split("\0", 2);
      text = `${this.#statements.get(name) ?? ""}\n${text}`;
    } else if (type === "Q" || type === "S" || type === "F") {
      this.#requests++;
    }
    return { text, runs: type === "Q" || type === "B", repliesBefore };
  }
}

/** Splits one direction into its messages. */
class MessageSplitter {
  /** Whether the next message has no type byte. */
  untyped = false;
  /** How many bytes that belong to no message come next. */
  skip = 0;
  #pending: Buffer = Buffer.alloc(0);

  read<T>(chunk: Buffer, take: (message: Message) => T): T[] {
    const taken: T[] = [];
    const bytes = Buffer.concat([this.#pending, chunk]);
    const before = this.#pending.length;
    let at = 0;
    for (;;) {
      const skipped = Math.min(this.skip, bytes.length - at);
      this.skip -= skipped;
      at += skipped;
      const head = this.untyped ? 0 : 1;
      if (bytes.length < at + head + 4) break;
      const length = bytes.readInt32BE(at + head);
      if (length < 4) throw new Error(`Cannot read a message of ${length} bytes: is it encrypted?`);
      const end = at + head + length;
      if (bytes.length < end) break;
      const type = bytes.toString("latin1", at, at + head);
      taken.push(take({ type, body: bytes.subarray(at + head + 4, end), end: end - before }));
      at = end;
    }
    this.#pending = bytes.subarray(at);
    return taken;
  }
}
