/**
 * What goes through the pipes between the demo and its workers.
 *
 * To a worker: its settings as a line of JSON, the line `go` when all workers are ready, the line
 * `stop` when the time is over. A worker ends at once when this pipe closes, and so never outlives
 * the demo, however that ended.
 *
 * From a worker: frames. A frame is a byte for its kind, four bytes for the length of what follows,
 * and either the ids of one range, eight bytes each, every one of them counted out by the worker,
 * or a {@linkcode WorkerMessage} in JSON. Numbers are little-endian.
 *
 * @module
 */

/** What a worker has to know. It comes through the pipe, for others can read a command line. */
export interface WorkerSettings {
  /** Opens the store. */
  readonly url: string;
  /** The table, which exists. */
  readonly rangeTable: string;
  /** The key that all workers draw from. */
  readonly key: string;
  /** The sizes of the ranges, which each caller asks for in turn. */
  readonly sizes: readonly number[];
  /** How many callers draw at once in this worker. */
  readonly callers: number;
  /** Whether to hand out one id a second time. */
  readonly plantDuplicate: boolean;
}

/** What a worker did, as the events of its store tell. */
export interface WorkerReport {
  /** How many statements reserved its ranges. */
  readonly statements: number;
  /** How often a statement was repeated because the database had rolled it back. */
  readonly retries: number;
  /** How often an answer was refused because it could not be right. */
  readonly conflicts: number;
  /** How long the slowest statement took. */
  readonly slowestMs: number;
}

/** What a worker says beside its ids. */
export type WorkerMessage =
  | { readonly type: "ready" }
  | { readonly type: "failed"; readonly reason: string }
  | { readonly type: "done"; readonly report: WorkerReport };

const headerBytes = 5;
const idBytes = 8;
const idsKind = 1;
const messageKind = 2;

/** A frame of ids, each of which is counted out. */
export function idFrame(start: bigint, end: bigint): Uint8Array {
  const count = Number(end - start);
  const { frame, body } = newFrame(idsKind, count * idBytes);
  let offset = 0;
  for (let id = start; id < end; id++) {
    body.setBigUint64(offset, id, true);
    offset += idBytes;
  }
  return frame;
}

/** A frame of a message. */
export function messageFrame(message: WorkerMessage): Uint8Array {
  const text = new TextEncoder().encode(JSON.stringify(message));
  const { frame } = newFrame(messageKind, text.length);
  frame.set(text, headerBytes);
  return frame;
}

function newFrame(kind: number, length: number): { frame: Uint8Array; body: DataView } {
  const frame = new Uint8Array(headerBytes + length);
  const header = new DataView(frame.buffer, 0, headerBytes);
  header.setUint8(0, kind);
  header.setUint32(1, length, true);
  return { frame, body: new DataView(frame.buffer, headerBytes) };
}

/** Who receives what a worker sends. */
export interface FrameListener {
  /** A range has begun: the next `count` ids belong to it. */
  onRange(count: number): void;
  /** An id, in two halves of 32 bits. */
  onId(high: number, low: number): void;
  /** Something else. */
  onMessage(message: WorkerMessage): void;
}

/** Takes frames apart, in whatever pieces they arrive. */
export class FrameReader {
  readonly #listener: FrameListener;
  #rest: Uint8Array = new Uint8Array();

  constructor(listener: FrameListener) {
    this.#listener = listener;
  }

  /** Takes the next piece. */
  push(piece: Uint8Array): void {
    const bytes = this.#rest.length === 0 ? piece : joined(this.#rest, piece);
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    let offset = 0;
    while (offset + headerBytes <= bytes.length) {
      const length = view.getUint32(offset + 1, true);
      const body = offset + headerBytes;
      const end = body + length;
      if (end > bytes.length) break;
      if (view.getUint8(offset) === idsKind) this.#readIds(view, { from: body, to: end });
      else {
        const text = new TextDecoder().decode(bytes.subarray(body, end));
        this.#listener.onMessage(JSON.parse(text));
      }
      offset = end;
    }
    this.#rest = bytes.slice(offset);
  }

  #readIds(view: DataView, { from, to }: { from: number; to: number }): void {
    this.#listener.onRange((to - from) / idBytes);
    for (let offset = from; offset < to; offset += idBytes) {
      this.#listener.onId(view.getUint32(offset + 4, true), view.getUint32(offset, true));
    }
  }
}

function joined(first: Uint8Array, second: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(first.length + second.length);
  bytes.set(first);
  bytes.set(second, first.length);
  return bytes;
}
