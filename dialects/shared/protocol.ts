/**
 * What the adapters of the drivers of PostgreSQL's protocol share: how values travel as text, and
 * what the server says it is.
 *
 * @module
 */

import type { ServerInfo } from "../../core/sql/client.ts";
import type { QueryResult } from "../../core/sql/row.ts";
import type { Bindable } from "../../core/sql/statement.ts";

/** A value as the protocol's text format has it. */
export function parameterText(value: Bindable): string | null {
  return value === null ? null : String(value);
}

/** Joins the pieces of a statement's text with the protocol's numbered parameters. */
export function numbered(pieces: readonly string[]): string {
  return pieces.reduce((text, piece, index) => `${text}$${index}${piece}`);
}

/** The product and version out of what `version()` gave, such as "PostgreSQL 15.18 on x86_64…". */
export function serverInfo({ rows }: QueryResult): ServerInfo {
  const text = rows[0]?.text("version") ?? "";
  const [, product = text, version = ""] = /^(\S+)\D*?([0-9][0-9.]*)/.exec(text) ?? [];
  return { product, version };
}
