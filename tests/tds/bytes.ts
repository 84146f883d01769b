/**
 * The bytes of TDS 7.4, as far as a stand-in for a server needs them: requests are read, answers are
 * written. What is not known is an error, so that a test cannot pass over it.
 *
 * @module
 */

import { Buffer } from "node:buffer";

/** The kinds of messages that a client sends. */
export const messageType = {
  batch: 0x01,
  call: 0x03,
  attention: 0x06,
  transaction: 0x0e,
  login: 0x10,
  prelogin: 0x12,
} as const;

/** What a transaction manager request asks for. */
export const transactionOperation = { begin: 5, commit: 7, rollback: 8 } as const;

/** A parameter as it came. */
export interface Parameter {
  /** Its name, with the @. */
  readonly name: string;
  /** Its type: "nvarchar(4000)", "bigint". */
  readonly type: string;
  readonly value: string | bigint | boolean | null;
}

/** A value that a row can hold; undefined only in what is not read. */
export type Value = string | bigint | boolean | null;

/** The type of a column, or of all values of one. */
export type ColumnType = "nvarchar" | "bigint" | "bit" | "int";

/** One result of a batch. */
export interface Result {
  readonly columns: readonly { readonly name: string; readonly type: ColumnType }[];
  readonly rows: readonly (readonly Value[])[];
}

/** An error of the server. */
export interface ServerError {
  readonly number: number;
  readonly message: string;
}

/** Reads numbers and texts one after the other. */
class Reader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get ended(): boolean {
    return this.#at >= this.#bytes.length;
  }

  skip(count: number): void {
    this.#at += count;
  }

  bytes(count: number): Buffer {
    if (this.#at + count > this.#bytes.length) throw new RangeError("The message is too short");
    return this.#bytes.subarray(this.#at, this.#at += count);
  }

  u8(): number {
    return this.bytes(1).readUInt8();
  }

  u16(): number {
    return this.bytes(2).readUInt16LE();
  }

  u32(): number {
    return this.bytes(4).readUInt32LE();
  }

  text(characters: number): string {
    return this.bytes(characters * 2).toString("utf16le");
  }

  rest(): string {
    return this.bytes(this.#bytes.length - this.#at).toString("utf16le");
  }
}

/** The transaction that a request says it runs in, and what follows its headers. */
function headers(bytes: Buffer): { reader: Reader; transaction: string } {
  const reader = new Reader(bytes);
  const length = reader.u32();
  reader.skip(6);
  const transaction = reader.bytes(8).toString("hex");
  reader.skip(length - 4 - 6 - 8);
  return { reader, transaction };
}

/** The text of a batch. */
export function readBatch(bytes: Buffer): { text: string; transaction: string } {
  const { reader, transaction } = headers(bytes);
  return { text: reader.rest(), transaction };
}

/** A transaction manager request. */
export function readTransaction(bytes: Buffer): { operation: number; isolation: number } {
  const { reader } = headers(bytes);
  const operation = reader.u16();
  return { operation, isolation: operation === transactionOperation.begin ? reader.u8() : 0 };
}

/** A call of `sp_executesql`: the text, the declaration of its parameters, and these. */
export function readCall(
  bytes: Buffer,
): { text: string; declaration: string; parameters: Parameter[]; transaction: string } {
  const { reader, transaction } = headers(bytes);
  const [special, procedure] = [reader.u16(), reader.u16()];
  if (special !== 0xffff || procedure !== 10) throw new TypeError("It is not sp_executesql");
  reader.skip(2);
  const all: Parameter[] = [];
  while (!reader.ended) all.push(readParameter(reader));
  const [statement, declaration, ...parameters] = all;
  return {
    text: String(statement?.value),
    declaration: String(declaration?.value ?? ""),
    parameters,
    transaction,
  };
}

function readParameter(reader: Reader): Parameter {
  const name = reader.text(reader.u8());
  reader.skip(1);
  const type = reader.u8();
  switch (type) {
    case 0xe7: {
      const size = reader.u16();
      reader.skip(5);
      if (size === 0xffff) return { name, type: "nvarchar(max)", value: readPieces(reader) };
      const length = reader.u16();
      const value = length === 0xffff ? null : reader.text(length / 2);
      return { name, type: `nvarchar(${size / 2})`, value };
    }
    case 0x26: {
      const [size, length] = [reader.u8(), reader.u8()];
      if (size !== 8) throw new TypeError(`An integer of ${size} bytes is not known`);
      return {
        name,
        type: "bigint",
        value: length === 0 ? null : reader.bytes(8).readBigInt64LE(),
      };
    }
  }
  throw new TypeError(`The type 0x${type.toString(16)} is not known`);
}

function readPieces(reader: Reader): string {
  reader.skip(8);
  let text = "";
  for (let length = reader.u32(); length > 0; length = reader.u32()) {
    text += reader.text(length / 2);
  }
  return text;
}

/** The user, the password and the database of a login. */
export function readLogin(bytes: Buffer): { user: string; password: string; database: string } {
  const field = (offset: number): Buffer => {
    const start = bytes.readUInt16LE(offset);
    return bytes.subarray(start, start + bytes.readUInt16LE(offset + 2) * 2);
  };
  // A password travels with the halves of its bytes swapped, and some bits turned over.
  const password = Buffer.from(
    field(44).map((byte) => ((byte ^ 0xa5) << 4 | (byte ^ 0xa5) >> 4) & 0xff),
  );
  return {
    user: field(40).toString("utf16le"),
    password: password.toString("utf16le"),
    database: field(68).toString("utf16le"),
  };
}

function u8(value: number): Buffer {
  return Buffer.from([value]);
}

function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function i64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(value);
  return bytes;
}

function shortText(text: string): Buffer {
  return Buffer.concat([u8(text.length), Buffer.from(text, "utf16le")]);
}

function longText(text: string): Buffer {
  return Buffer.concat([u16(text.length), Buffer.from(text, "utf16le")]);
}

/** A token with its length before what is in it. */
function token(type: number, ...content: Buffer[]): Buffer {
  const all = Buffer.concat(content);
  return Buffer.concat([u8(type), u16(all.length), all]);
}

/** Latin1_General_CI_AS, which a server has unless it was told otherwise. */
const collation = Buffer.from([0x09, 0x04, 0xd0, 0x00, 0x34]);

/** Answers a prelogin: no encryption. */
export function preloginAnswer(): Buffer {
  const options = [[0, 6], [1, 1]] as const;
  let at = options.length * 5 + 1;
  const head = options.map(([type, length]) => {
    const bytes = Buffer.from([type, 0, at, 0, length]);
    at += length;
    return bytes;
  });
  const notSupported = 2;
  return Buffer.concat([...head, u8(0xff), Buffer.from([16, 0, 0, 0, 0, 0]), u8(notSupported)]);
}

/** Lets a client in. */
export function loginAnswer(database: string): Buffer {
  const name = "Microsoft SQL Server";
  return Buffer.concat([
    token(0xe3, u8(1), shortText(database), shortText("master")),
    token(0xe3, u8(7), u8(collation.length), collation, u8(0)),
    token(
      0xad,
      u8(1),
      Buffer.from([0x74, 0, 0, 4]),
      shortText(name),
      Buffer.from([16, 0, 0x10, 0]),
    ),
    done(0xfd),
  ]);
}

/** An error. */
export function errorToken({ number, message }: ServerError): Buffer {
  const [state, severity, line] = [1, 16, 1];
  return token(
    0xaa,
    u32(number),
    u8(state),
    u8(severity),
    longText(message),
    shortText("standin"),
    shortText(""),
    u32(line),
  );
}

/** Says that a transaction began, was committed or was rolled back. */
export function transactionToken(
  operation: keyof typeof transactionOperation,
  descriptor: Buffer,
): Buffer {
  const type = { begin: 8, commit: 9, rollback: 10 }[operation];
  const [now, before] = operation === "begin"
    ? [descriptor, Buffer.alloc(0)]
    : [Buffer.alloc(0), descriptor];
  return token(0xe3, u8(type), u8(now.length), now, u8(before.length), before);
}

/** The end of a batch (0xfd), of a statement in a call (0xff), or of a call (0xfe). */
export function done(type: number, { more = false, error = false, attention = false, count }: {
  more?: boolean;
  error?: boolean;
  attention?: boolean;
  count?: number;
} = {}): Buffer {
  const status = (more ? 0x01 : 0) | (error ? 0x02 : 0) | (attention ? 0x20 : 0) |
    (count === undefined ? 0 : 0x10);
  return Buffer.concat([u8(type), u16(status), u16(0), i64(BigInt(count ?? 0))]);
}

/** The columns and rows of a result. */
export function resultTokens({ columns, rows }: Result): Buffer {
  const head = columns.map(({ name, type }) =>
    Buffer.concat([u32(0), u16(0x09), typeInfo(type), shortText(name)])
  );
  const body = rows.map((cells) =>
    Buffer.concat([
      u8(0xd1),
      ...cells.map((cell, index) => valueBytes(columns[index]?.type ?? "bigint", cell)),
    ])
  );
  return Buffer.concat([u8(0x81), u16(columns.length), ...head, ...body]);
}

function typeInfo(type: ColumnType): Buffer {
  switch (type) {
    case "bigint":
      return Buffer.from([0x26, 8]);
    case "int":
      return Buffer.from([0x26, 4]);
    case "bit":
      return Buffer.from([0x68, 1]);
    case "nvarchar":
      return Buffer.concat([u8(0xe7), u16(8_000), collation]);
  }
}

function valueBytes(type: ColumnType, value: Value): Buffer {
  if (type === "nvarchar") {
    if (value === null) return u16(0xffff);
    const text = Buffer.from(String(value), "utf16le");
    return Buffer.concat([u16(text.length), text]);
  }
  if (value === null) return u8(0);
  if (type === "bit") return Buffer.from([1, value ? 1 : 0]);
  if (type === "int") return Buffer.concat([u8(4), u32(Number(value))]);
  return Buffer.concat([u8(8), i64(BigInt(value))]);
}

const packetSize = 4_096;
const headerSize = 8;

/** A message as the packets in which a server sends it. */
export function packets(content: Buffer): Buffer {
  const parts: Buffer[] = [];
  for (let at = 0; at === 0 || at < content.length; at += packetSize - headerSize) {
    const data = content.subarray(at, at + packetSize - headerSize);
    const last = at + data.length >= content.length;
    const header = Buffer.from([0x04, last ? 1 : 0, 0, 0, 0, 0, 1, 0]);
    header.writeUInt16BE(headerSize + data.length, 2);
    parts.push(header, data);
  }
  return Buffer.concat(parts);
}

/** Puts the packets that a client sends together to messages. */
export class Messages {
  #bytes: Buffer = Buffer.alloc(0);
  #parts: Buffer[] = [];

  /** Takes what came, and gives the messages that are whole. */
  *take(chunk: Uint8Array): Generator<{ type: number; content: Buffer }> {
    this.#bytes = Buffer.concat([this.#bytes, chunk]);
    while (this.#bytes.length >= headerSize) {
      const length = this.#bytes.readUInt16BE(2);
      if (this.#bytes.length < length) return;
      const [type = 0, status = 0] = this.#bytes;
      this.#parts.push(this.#bytes.subarray(headerSize, length));
      this.#bytes = this.#bytes.subarray(length);
      if ((status & 1) === 0) continue;
      const content = Buffer.concat(this.#parts);
      this.#parts = [];
      // A message that its client gave up before it was whole.
      if ((status & 2) === 0) yield { type, content };
    }
  }
}
