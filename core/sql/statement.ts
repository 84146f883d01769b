/**
 * Statements as tagged templates: values bind, identifiers splice, fragments nest. No value is ever
 * concatenated into SQL.
 *
 * A {@linkcode Renderer} turns a statement into what a driver takes. The text depends only on the
 * templates and the identifiers, so it is made once for each combination: a statement that is
 * repeated reaches the driver as the same text and is prepared once on the server.
 *
 * @module
 */

import { InvalidArgumentError } from "../errors.ts";

/** What can be bound as a parameter. A number must be a safe integer. */
export type Bindable = string | number | bigint | boolean | null;

/** What can stand in a `${…}` of a statement. */
export type SqlPart = Bindable | Identifier | Statement;

const namePattern = /^[A-Za-z_][A-Za-z0-9_]*$/;
/** PostgreSQL cuts longer names without a word. */
const maxNameLength = 63;

/**
 * The checked name of a table or column, optionally qualified by a schema.
 *
 * It is always quoted when it is rendered, so mixed case and reserved words work.
 *
 * @example
 * ```ts
 * import { Identifier } from "@fencepost/store";
 *
 * console.log(Identifier.parse("shop.Order", "rangeTable").parts); // ["shop", "Order"]
 * ```
 */
export class Identifier {
  /** The schema, if there is one, and the name. */
  readonly parts: readonly [string] | readonly [string, string];

  private constructor(parts: readonly [string] | readonly [string, string]) {
    this.parts = parts;
  }

  /**
   * Checks a name: one or two parts with a dot between, each 1 to 63 letters A to Z, digits and
   * underscores, not starting with a digit.
   *
   * @param text The name, such as "cosid_range" or "shop.cosid_range".
   * @param option The option that it came from, for the error.
   */
  static parse(text: string, option: string): Identifier {
    const parts = typeof text === "string" ? text.split(".") : [];
    const valid = parts.every((part) => namePattern.test(part) && part.length <= maxNameLength);
    const [first, second] = parts;
    if (!valid || first === undefined || parts.length > 2) {
      throw new InvalidArgumentError(
        `Cannot use ${option}: it must be a name of 1 to 63 letters, digits and underscores, ` +
          `optionally after a schema and a dot: received ${show(text)}`,
      );
    }
    return new Identifier(second === undefined ? [first] : [first, second]);
  }

  /** The name without its schema. */
  get name(): string {
    return this.parts[1] ?? this.parts[0];
  }

  /** The schema; undefined if the name is not qualified. */
  get schema(): string | undefined {
    return this.parts[1] === undefined ? undefined : this.parts[0];
  }

  /** The name as it was configured. */
  toString(): string {
    return this.parts.join(".");
  }
}

/** A statement, or a fragment of one. Made by the {@linkcode sql} tag. */
export class Statement {
  /** The text between the parts. */
  readonly strings: TemplateStringsArray;
  /** The parts. */
  readonly parts: readonly SqlPart[];

  /**
   * Used by the tag.
   *
   * @param strings The text between the parts.
   * @param parts The parts.
   */
  constructor(strings: TemplateStringsArray, parts: readonly SqlPart[]) {
    this.strings = strings;
    this.parts = parts;
  }
}

/**
 * Writes a statement: values bind, identifiers splice, fragments nest.
 *
 * @example
 * ```ts
 * import { Identifier, sql } from "@fencepost/store";
 *
 * const table = Identifier.parse("cosid_range", "rangeTable");
 * const statement = sql`select next_value from ${table} where range_key = ${"order"}`;
 * console.log(statement.parts.length); // 2
 * ```
 */
export function sql(strings: TemplateStringsArray, ...parts: SqlPart[]): Statement {
  return new Statement(strings, parts);
}

const literals = new Map<number | string, Statement>();

/**
 * An integer or a word as part of a text, for places that take no bound value. Each becomes texts of
 * its own: use few.
 *
 * @param value A safe integer from 0 up, or a word of lower-case letters and underscores.
 */
export function literal(value: number | string): Statement {
  const fits = typeof value === "string"
    ? /^[a-z_]+$/.test(value)
    : Number.isSafeInteger(value) && value >= 0;
  if (!fits) {
    throw new InvalidArgumentError(
      `Cannot write literal: it must be a safe integer from 0 up, or a word of lower-case letters ` +
        `and underscores: received ${show(value)}`,
    );
  }
  let found = literals.get(value);
  if (found === undefined) {
    const text = String(value);
    found = new Statement(Object.assign([text], { raw: [text] }), []);
    literals.set(value, found);
  }
  return found;
}

/** Statements one after the other, with a text between them. */
export function joined(
  statements: readonly Statement[],
  join: (before: Statement, after: Statement) => Statement,
): Statement {
  return statements.reduce((before, after) => join(before, after));
}

/** The type of a bound value, as a text may have to tell the database. */
export type BindableType = "bigint" | "boolean" | "null" | "number" | "string";

/**
 * Makes what a driver takes of a statement's text.
 *
 * @param pieces The text before, between and after the bound values.
 * @param types The types of the values that stand between them, in order.
 */
export type MakeText<T> = (pieces: readonly string[], types: readonly BindableType[]) => T;

/** A statement as a driver takes it. */
export interface Rendered<T, V = Bindable> {
  /** What was made of the text, the same for the same templates, identifiers and types of values. */
  readonly text: T;
  /** The values to bind, in order. */
  readonly values: V[];
}

interface Node<T> {
  readonly children: Map<object, Node<T>>;
  text?: T;
}

/** Where the values of a statement go, and what is made of them. */
interface Values {
  readonly bind: (value: Bindable) => unknown;
  readonly values: unknown[];
}

/** Renders statements for one driver and remembers their texts. */
export class Renderer<T> {
  readonly #quote: (name: string) => string;
  readonly #make: MakeText<T>;
  readonly #root: Node<T> = { children: new Map() };

  /**
   * Makes a renderer for a driver.
   *
   * @param options How names are quoted, and what is made of a text.
   */
  constructor(options: { quote: (name: string) => string; make: MakeText<T> }) {
    this.#quote = options.quote;
    this.#make = options.make;
  }

  /** Renders a statement; its values stay as they are. */
  render(statement: Statement): Rendered<T>;
  /** Renders a statement; its values become what `bind` makes of them. */
  render<V>(statement: Statement, bind: (value: Bindable) => V): Rendered<T, V>;
  render(
    statement: Statement,
    bind: (value: Bindable) => unknown = (value) => value,
  ): Rendered<T, unknown> {
    const values: unknown[] = [];
    const node = this.#find(this.#root, statement, { bind, values });
    node.text ??= this.#text(statement);
    return { text: node.text, values };
  }

  #find(node: Node<T>, statement: Statement, to: Values): Node<T> {
    let found = child(node, statement.strings);
    for (const part of statement.parts) {
      if (part instanceof Statement) found = this.#find(found, part, to);
      else if (part instanceof Identifier) found = child(found, part);
      else {
        found = child(found, markers[typeOf(part)]);
        to.values.push(to.bind(part));
      }
    }
    return found;
  }

  #text(statement: Statement): T {
    const pieces = [""];
    const types: BindableType[] = [];
    const append = (text: string) => pieces.push(pieces.pop() + text);
    const write = ({ strings, parts }: Statement) =>
      strings.forEach((text, index) => {
        append(text);
        const part = parts[index];
        if (part === undefined) return;
        if (part instanceof Statement) write(part);
        else if (part instanceof Identifier) append(part.parts.map(this.#quote).join("."));
        else {
          pieces.push("");
          types.push(typeOf(part));
        }
      });
    write(statement);
    return this.#make(pieces, types);
  }
}

/** Stand for bound values on the way to a text: which parts bind, and as what, is part of it. */
const markers: Readonly<Record<BindableType, object>> = {
  bigint: {},
  boolean: {},
  null: {},
  number: {},
  string: {},
};

function typeOf(value: Bindable): BindableType {
  return value === null ? "null" : typeof value as BindableType;
}

function child<T>(node: Node<T>, key: object): Node<T> {
  let found = node.children.get(key);
  if (found === undefined) {
    found = { children: new Map() };
    node.children.set(key, found);
  }
  return found;
}

/** Quotes a name as the SQL standard does. */
export function doubleQuoted(name: string): string {
  return `"${name}"`;
}

/** The text of a statement without bound values, for a script. */
export function scriptText(statement: Statement, quote: (name: string) => string): string {
  const make = (pieces: readonly string[]): string => {
    if (pieces.length > 1) throw new TypeError("A statement of a script binds no value");
    return pieces.join("");
  };
  return new Renderer({ quote, make }).render(statement).text;
}

/** A value as an error message shows it: bounded, and readable whatever it is. */
export function show(value: unknown): string {
  const text = typeof value === "string"
    ? JSON.stringify(value)
    : typeof value === "bigint"
    ? `${value}n`
    : typeof value === "object" && value !== null
    ? Array.isArray(value) ? "an array" : "an object"
    : typeof value === "function"
    ? "a function"
    : String(value);
  return text.length <= 80 ? text : `${text.slice(0, 77)}...`;
}
