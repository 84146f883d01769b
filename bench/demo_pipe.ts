/**
 * What goes through the pipes between the demo and its workers.
 *
 * To a worker: its settings as a line of JSON, the line `go` when all workers are ready, the line
 * `stop` when the time is over. A worker ends at once when this pipe closes, and so never outlives
 * the demo, however that ended.
 *
 * From a worker: frames. A frame is a byte for its kind, four bytes for the length of what follows,
 * and the ids of one range, eight bytes each, every one of them counted out by the worker, or so a
 * batch of snowflake ids, or a {@linkcode WorkerMessage} in JSON. Numbers are little-endian.
 *
 * @module
 */

import type { TableOptions } from "../mod.ts";

/** What a worker has to know. It comes through the pipe, for others can read a command line. */
export interface WorkerSettings {
  /** Opens the store. */
  readonly url: string;
  /** The tables, which exist. */
  readonly tables: Required<TableOptions>;
  /** The key that all workers draw from. */
  readonly key: string;
  /** The sizes of the ranges, which each caller asks for in turn. */
  readonly sizes: readonly number[];
  /** How many callers draw at once in this worker. */
  readonly callers: number;
  /** The namespace in which it takes a slot for its snowflake ids. */
  readonly namespace: string;
  /** How many slots the namespace has. */
  readonly limit: number;
  /** Who takes the slot; nobody else that lives has the same. */
  readonly ownerKey: string;
  /** How many snowflake ids it draws at once. */
  readonly batch: number;
  /** Whether to hand out a range id and a snowflake id a second time. */
  readonly plantDuplicate: boolean;
}

/** What a worker did, as the events of its store tell. */
export interface WorkerReport {
  /** How many range ids it reserved. */
  readonly reserved: number;
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
  | { readonly type: "acquired"; readonly slot: number }
  | { readonly type: "ready" }
  | { readonly type: "failed"; readonly reason: string }
  | { readonly type: "done"; readonly report: WorkerReport };

const headerBytes = 5;
const idBytes = 8;
const idsKind = 1;
const messageKind = 2;
const snowflakesKind = 3;

/** What the ids of a frame are: a range, or a batch of snowflake ids. */
export type IdKind = "range" | "snowflake";

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

/** A frame of snowflake ids. */
export function snowflakeFrame(ids: readonly bigint[]): Uint8Array {
  const { frame, body } = newFrame(snowflakesKind, ids.length * idBytes);
  for (const [index, id] of ids.entries()) body.setBigUint64(index * idBytes, id, true);
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
  /** A range, or a batch of snowflake ids, has begun: the next `count` ids belong to it. */
  onRange(count: number, kind: IdKind): void;
  /** An id of the range or batch that has begun, in two halves of 32 bits. */
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
      const kind = view.getUint8(offset);
      if (kind === idsKind) this.#readIds(view, { kind: "range", from: body, to: end });
      else if (kind === snowflakesKind) {
        this.#readIds(view, { kind: "snowflake", from: body, to: end });
      } else {
        const text = new TextDecoder().decode(bytes.subarray(body, end));
        this.#listener.onMessage(JSON.parse(text));
      }
      offset = end;
    }
    this.#rest = bytes.slice(offset);
  }

  #readIds(
    view: DataView,
    { kind, from, to }: { kind: IdKind; from: number; to: number },
  ): void {
    this.#listener.onRange((to - from) / idBytes, kind);
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
