/**
 * A row of a result, read by the names that the statement gave.
 *
 * Drivers return a 64-bit integer as a string, a number, a bigint or bytes, depending on the
 * application's settings. A row gives it back as the type that the reader asks for, without loss,
 * or throws; it never rounds.
 *
 * @module
 */

import { ConfigurationError } from "../errors.ts";

/** A value as a driver returns it. */
export type Cell = unknown;

/** The longest 64-bit integer. */
const maxShort = 20;

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** The columns of a result: an array of their names, or whatever else finds one. */
export interface Columns {
  /** The position of a column by the name that the statement gave it; -1 if there is none. */
  indexOf(name: string): number;
}

/** One row of a result. */
export class Row {
  readonly #columns: Columns;
  readonly #cells: readonly Cell[];

  /**
   * Makes a row of what a driver returned.
   *
   * @param columns The columns.
   * @param cells The values, in the order of the columns.
   */
  constructor(columns: Columns, cells: readonly Cell[]) {
    this.#columns = columns;
    this.#cells = cells;
  }

  /** Whether there is such a column. */
  has(name: string): boolean {
    return this.#columns.indexOf(name) >= 0;
  }

  /** Whether the column holds null. */
  isNull(name: string): boolean {
    return this.#cell(name) === null;
  }

  /** The column as a 64-bit integer. Throws if it is not one, or was rounded on its way here. */
  bigint(name: string): bigint {
    const cell = textOf(this.#cell(name));
    const exact = typeof cell === "bigint" || Number.isSafeInteger(cell) ||
      (typeof cell === "string" && /^-?[0-9]+$/.test(cell));
    const value = exact ? BigInt(cell as bigint | number | string) : undefined;
    return value !== undefined && BigInt.asIntN(64, value) === value
      ? value
      : mismatch(name, "a 64-bit integer without loss", cell);
  }

  /** The column as a number. Throws if it is not an integer that a number holds exactly. */
  number(name: string): number {
    const value = Number(this.bigint(name));
    return Number.isSafeInteger(value) ? value : mismatch(name, "a safe integer", value);
  }

  /** The column as text. */
  text(name: string): string {
    const cell = textOf(this.#cell(name));
    return typeof cell === "string" ? cell : mismatch(name, "text", cell);
  }

  /** The column as true or false, whether the database has a boolean type or stores 1 and 0. */
  boolean(name: string): boolean {
    const cell = textOf(this.#cell(name));
    if (cell === true || cell === 1 || cell === 1n || cell === "t" || cell === "true") return true;
    if (cell === "1" || cell === "\u0001") return true;
    if (cell === false || cell === 0 || cell === 0n || cell === "f" || cell === "false") {
      return false;
    }
    if (cell === "0" || cell === "\u0000") return false;
    return mismatch(name, "a boolean", cell);
  }

  #cell(name: string): Cell {
    const index = this.#columns.indexOf(name);
    if (index < 0) {
      throw new ConfigurationError(`Cannot read column "${name}": the result has none`);
    }
    return this.#cells[index] ?? null;
  }
}

/** What a statement gave. */
export interface QueryResult {
  /** The rows, if it returns any. */
  readonly rows: readonly Row[];
  /** How many rows it changed, as the driver counts them. */
  readonly affected: number;
  /**
   * The key that the statement generated, where the driver reports one: on MySQL and MariaDB what
   * `last_insert_id(…)` was given. 0 is one too.
   */
  readonly generatedKey?: bigint;
}

function textOf(cell: Cell): Cell {
  if (!(cell instanceof Uint8Array)) return cell;
  // Numbers come as a few ASCII bytes, for which a decoder costs more than this.
  return cell.length <= maxShort && cell.every((byte) => byte < 128)
    ? String.fromCharCode(...cell)
    : utf8.decode(cell);
}

function mismatch(name: string, wanted: string, cell: Cell): never {
  const type = cell === null ? "null" : typeof cell;
  throw new ConfigurationError(
    `Cannot read column "${name}": the driver must return ${wanted}: received a ${type}`,
  );
}
