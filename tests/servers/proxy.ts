/**
 * A TCP proxy in front of a database, which counts round trips and breaks connections in the ways
 * that networks do, at the moment that a test asks for.
 *
 * It works for every protocol. Of PostgreSQL's it knows more: that a goodbye is no turn, which SQL
 * a prepared statement's name stands for, and where a reply ends. For other protocols a statement
 * is what the client sent since the server last spoke, and a reply is the server's next bytes.
 *
 * @module
 */
import { Buffer } from "node:buffer";
import { connect, createServer, type Server, type Socket } from "node:net";
import { clearTimeout, setTimeout } from "node:timers";
import { PostgresqlReader, type Said } from "./postgresql_messages.ts";

/** A proxy that runs. */
export interface Proxy extends AsyncDisposable {
  /** The port of 127.0.0.1 on which it listens. */
  readonly port: number;
  /** The URL of the database behind it, with the proxy's host and port. */
  readonly url: string;
  /**
   * Client-to-server turns so far, the sum of all connections. A turn begins when the client speaks
   * at the start or after the server did, so that pipelined writes are one turn.
   */
  readonly turns: number;
  /** Counts turns from zero. */
  resetTurns(): void;
  /** How many connections clients have open. */
  readonly connections: number;
  /** Resets every open connection on both sides; new ones are accepted. */
  cut(): void;
  /** Delays both directions by this many milliseconds from now on; 0 ends it. */
  delay(ms: number): void;
  /**
   * Swallows what goes in this direction, the end of a connection included, until
   * {@linkcode heal}. What was swallowed is lost.
   */
  blackhole(direction: Direction | "both"): void;
  /** Resets new connections at once, until {@linkcode heal}. */
  refuse(): void;
  /** Ends {@linkcode blackhole} and {@linkcode refuse}. */
  heal(): void;
  /**
   * Lets the server finish the next statement that contains `match`, then drops its reply and
   * resets the connection: outside a transaction, the statement is committed and the client cannot
   * know. Resolves when it happened.
   */
  dropNextReply(match: string): Promise<void>;
  /**
   * Resets the next connection on which the client sends `match`, before the server has all of that
   * statement: it is never executed. Resolves when it happened.
   */
  cutBefore(match: string): Promise<void>;
  /** Ends every connection and stops listening. */
  close(): Promise<void>;
}

/** Where bytes go. */
export type Direction = "toServer" | "toClient";

/** Starts a proxy in front of the database at this URL. */
export async function startProxy(upstreamUrl: string): Promise<Proxy> {
  const proxy = new TcpProxy(new URL(upstreamUrl));
  await proxy.listen();
  return proxy;
}

const defaultPorts: Readonly<Record<string, number>> = {
  "postgres:": 5432,
  "postgresql:": 5432,
  "mysql:": 3306,
  "mariadb:": 3306,
  "sqlserver:": 1433,
  "mssql:": 1433,
};

/** What holds for all connections of a proxy. */
interface Network {
  delayMs: number;
  readonly blackholes: Set<Direction>;
  turns: number;
  readonly traps: Trap[];
}

interface Trap {
  readonly kind: "cutBefore" | "dropReply";
  /** In latin1, as the connections' bytes are. */
  readonly match: string;
  readonly resolve: () => void;
  readonly reject: (reason: Error) => void;
}

class TcpProxy implements Proxy {
  readonly #upstream: URL;
  readonly #server: Server;
  readonly #open = new Set<Connection>();
  readonly #network: Network = { delayMs: 0, blackholes: new Set(), turns: 0, traps: [] };
  #refusing = false;
  #port = 0;
  #closed: Promise<void> | undefined;

  constructor(upstream: URL) {
    this.#upstream = upstream;
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
      this.#accept(client);
    });
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(0, "127.0.0.1", resolve);
    });
    const address = this.#server.address();
    if (typeof address === "object" && address !== null) this.#port = address.port;
  }

  get port(): number {
    return this.#port;
  }

  get url(): string {
    const url = new URL(this.#upstream);
    url.host = `127.0.0.1:${this.#port}`;
    return url.href;
  }

  get turns(): number {
    return this.#network.turns;
  }

  resetTurns(): void {
    this.#network.turns = 0;
  }

  get connections(): number {
    return [...this.#open].filter((connection) => connection.clientIsOpen).length;
  }

  cut(): void {
    for (const connection of this.#open) connection.reset();
  }

  delay(ms: number): void {
    this.#network.delayMs = ms;
  }

  blackhole(direction: Direction | "both"): void {
    if (direction !== "toClient") this.#network.blackholes.add("toServer");
    if (direction !== "toServer") this.#network.blackholes.add("toClient");
  }

  refuse(): void {
    this.#refusing = true;
  }

  heal(): void {
    this.#refusing = false;
    this.#network.blackholes.clear();
    for (const connection of this.#open) connection.heal();
  }

  dropNextReply(match: string): Promise<void> {
    return this.#trap("dropReply", match);
  }

  cutBefore(match: string): Promise<void> {
    return this.#trap("cutBefore", match);
  }

  close(): Promise<void> {
    return this.#closed ??= new Promise((resolve) => {
      this.#server.close(() => resolve());
      this.cut();
      for (const { kind, match, reject } of this.#network.traps.splice(0)) {
        reject(new Error(`Cannot ${kind} after the proxy is closed: received no ${match}`));
      }
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #trap(kind: Trap["kind"], match: string): Promise<void> {
    const sprung = new Promise<void>((resolve, reject) => {
      const latin1 = Buffer.from(match, "utf8").toString("latin1");
      this.#network.traps.push({ kind, match: latin1, resolve, reject });
    });
    // Whoever awaits it sees the rejection; whoever does not must not crash by it.
    sprung.catch(() => {});
    return sprung;
  }

  #accept(client: Socket): void {
    if (this.#refusing) {
      client.on("error", () => {});
      resetSocket(client);
      return;
    }
    const { hostname, port, protocol } = this.#upstream;
    const host = hostname.replace(/^\[|\]$/g, "");
    const upstream = connect({
      host,
      port: Number(port) || defaultPorts[protocol] || 0,
      allowHalfOpen: true,
      noDelay: true,
    });
    const reader = protocol.startsWith("postgres") ? new PostgresqlReader() : new PlainReader();
    const connection = new Connection({ client, upstream, reader, network: this.#network });
    this.#open.add(connection);
    connection.onClosed = () => this.#open.delete(connection);
  }
}

/** Knows no protocol: a request lasts until the server speaks, a reply is what it says. */
class PlainReader {
  #request = "";
  #replies = 0;

  get replies(): number {
    return this.#replies;
  }

  isGoodbye(_chunk: Buffer): boolean {
    return false;
  }

  readClient(chunk: Buffer): Said[] {
    this.#request += chunk.toString("latin1");
    return [{ text: this.#request, runs: true, repliesBefore: this.#replies }];
  }

  readServer(chunk: Buffer): { replies: number; end: number }[] {
    this.#request = "";
    return [{ replies: ++this.#replies, end: chunk.length }];
  }
}

interface ConnectionParts {
  readonly client: Socket;
  readonly upstream: Socket;
  readonly reader: PostgresqlReader | PlainReader;
  readonly network: Network;
}

class Connection {
  onClosed: () => void = () => {};
  readonly #client: Socket;
  readonly #upstream: Socket;
  readonly #reader: PostgresqlReader | PlainReader;
  readonly #network: Network;
  readonly #toServer: Lane;
  readonly #toClient: Lane;
  /** The reply to drop: the first after so many. */
  #dropping: { trap: Trap; after: number } | undefined;
  #serverSpokeLast = true;
  #clientEnded = false;

  constructor({ client, upstream, reader, network }: ConnectionParts) {
    this.#client = client;
    this.#upstream = upstream;
    this.#reader = reader;
    this.#network = network;
    this.#toServer = new Lane(upstream, { network, direction: "toServer" });
    this.#toClient = new Lane(client, { network, direction: "toClient" });
    this.#toClient.onDelivered = () => this.#serverSpokeLast = true;
    client.on("data", (chunk: Buffer) => this.#clientSaid(chunk));
    upstream.on("data", (chunk: Buffer) => this.#serverSaid(chunk));
    client.on("end", () => this.#clientEnded = true);
    this.#joinEnds(client, this.#toServer);
    this.#joinEnds(upstream, this.#toClient);
  }

  get clientIsOpen(): boolean {
    return !this.#clientEnded && !this.#client.destroyed;
  }

  reset(): void {
    this.#toServer.clear();
    this.#toClient.clear();
    resetSocket(this.#client);
    resetSocket(this.#upstream);
  }

  heal(): void {
    this.#toServer.heal();
    this.#toClient.heal();
  }

  #joinEnds(socket: Socket, lane: Lane): void {
    let failed = false;
    socket.on("error", () => failed = true);
    socket.on("end", () => lane.push("end"));
    socket.on("close", () => {
      lane.push(failed ? "reset" : "end");
      if (!this.#client.destroyed || !this.#upstream.destroyed) return;
      if (this.#dropping !== undefined) this.#network.traps.push(this.#dropping.trap);
      this.#dropping = undefined;
      this.onClosed();
    });
  }

  #clientSaid(chunk: Buffer): void {
    if (this.#serverSpokeLast && !this.#reader.isGoodbye(chunk)) {
      this.#serverSpokeLast = false;
      this.#network.turns++;
    }
    for (const said of this.#reader.readClient(chunk)) {
      const trap = this.#spring(said);
      if (trap?.kind === "cutBefore") {
        this.reset();
        trap.resolve();
        return;
      }
      if (trap !== undefined) this.#dropping = { trap, after: said.repliesBefore };
    }
    this.#toServer.push(chunk);
  }

  #spring({ text, runs }: Said): Trap | undefined {
    const { traps } = this.#network;
    const at = traps.findIndex(({ kind, match }) => {
      if (kind === "dropReply" && (!runs || this.#dropping !== undefined)) return false;
      return text.includes(match);
    });
    return at === -1 ? undefined : traps.splice(at, 1)[0];
  }

  #serverSaid(chunk: Buffer): void {
    const repliesSoFar = this.#reader.replies;
    const ends = this.#reader.readServer(chunk);
    if (this.#dropping === undefined) return this.#toClient.push(chunk);
    const { trap, after } = this.#dropping;
    if (repliesSoFar < after) {
      const kept = ends.find(({ replies }) => replies === after)?.end ?? chunk.length;
      this.#toClient.push(chunk.subarray(0, kept));
    }
    if (ends.some(({ replies }) => replies > after)) {
      this.#dropping = undefined;
      resetSocket(this.#upstream);
      // Behind the replies that the client still has to get.
      this.#toClient.push("reset");
      if (this.#client.destroyed) trap.resolve();
      else this.#client.once("close", trap.resolve);
    }
  }
}

/** What a direction of a connection carries. */
type Freight = Buffer | "end" | "reset";

interface LaneOptions {
  readonly network: Network;
  readonly direction: Direction;
}

/** One direction of a connection: keeps the order, whatever the delay. */
class Lane {
  onDelivered: () => void = () => {};
  readonly #target: Socket;
  readonly #network: Network;
  readonly #direction: Direction;
  #queue: { due: number; freight: Freight }[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #swallowedEnd: "end" | "reset" | undefined;

  constructor(target: Socket, { network, direction }: LaneOptions) {
    this.#target = target;
    this.#network = network;
    this.#direction = direction;
  }

  push(freight: Freight): void {
    const due = performance.now() + this.#network.delayMs;
    this.#queue.push({ due: Math.max(due, this.#queue.at(-1)?.due ?? 0), freight });
    this.#deliver();
  }

  heal(): void {
    const end = this.#swallowedEnd;
    this.#swallowedEnd = undefined;
    if (end !== undefined) this.push(end);
  }

  clear(): void {
    clearTimeout(this.#timer);
    this.#queue = [];
  }

  #deliver(): void {
    clearTimeout(this.#timer);
    const now = performance.now();
    for (let first = this.#queue[0]; first !== undefined; first = this.#queue[0]) {
      if (first.due > now) {
        this.#timer = setTimeout(() => this.#deliver(), Math.ceil(first.due - now));
        return;
      }
      this.#queue.shift();
      this.#hand(first.freight);
    }
  }

  #hand(freight: Freight): void {
    if (this.#network.blackholes.has(this.#direction)) {
      if (typeof freight === "string") this.#swallowedEnd = freight;
      return;
    }
    if (this.#target.destroyed) return;
    if (freight === "reset") resetSocket(this.#target);
    else if (freight === "end") this.#target.end();
    else {
      this.#target.write(freight);
      this.onDelivered();
    }
  }
}

/** Ends a connection as a crash of the other side does: by RST, not FIN. */
function resetSocket(socket: Socket): void {
  if (socket.destroyed) return;
  if (typeof socket.resetAndDestroy === "function") socket.resetAndDestroy();
  else socket.destroy();
}
