/**
 * What a URL says about how to connect.
 *
 * No error shows any of it but the scheme and the names of parameters: a URL that is wrong in one place
 * may have its password in another.
 *
 * @module
 */

import { refuse } from "../../core/arguments.ts";

/** The settings of a pool that the library opens. */
export interface MssqlConfig {
  /** The host. */
  readonly server: string;
  /** The port, unless the instance is named. */
  readonly port: number | undefined;
  /** The user. */
  readonly user: string | undefined;
  /** The password. */
  readonly password: string | undefined;
  /** The database; the user's default unless given. */
  readonly database: string | undefined;
  /** Saves the question `select 1` before each statement. */
  readonly validateConnection: "socket";
  /** How many connections it may have. */
  readonly pool: { readonly max: number };
  /** The settings of the driver inside. */
  readonly options: {
    readonly encrypt: boolean | "strict";
    readonly trustServerCertificate: boolean;
    readonly instanceName?: string;
    readonly appName?: string;
  };
}

const action = "open store";
const form = "the URL must be of the form sqlserver://host:port/database";
const parameterNames = ["encrypt", "trustServerCertificate", "instanceName", "appName", "max"];
const defaultMax = 10;
/** What stands in a host's place in a URL of another kind, such as JDBC's, may be a password. */
const hostPattern = /^(?:[\w.-]+|\[[\da-f:.]+\])$/i;

/**
 * Reads a URL.
 *
 * @param url `sqlserver://user:password@host:port/database`, or with `mssql:`, with the parameters
 * `encrypt`, `trustServerCertificate`, `instanceName`, `appName` and `max`.
 * @param credentials The user and the password, where they are not part of it.
 */
export function configOf(
  url: string,
  credentials: { username?: string; password?: string },
): MssqlConfig {
  const scheme = /^([a-z]+):/i.exec(url)?.[1]?.toLowerCase();
  if (scheme !== "sqlserver" && scheme !== "mssql") {
    const received = scheme === undefined ? "no scheme" : `${scheme}:…`;
    refuse(action, "the URL must begin with sqlserver: or mssql:", received);
  }
  const parsed = parse(url);
  const received = `${scheme}:…`;
  if (parsed === undefined || !hostPattern.test(parsed.hostname)) refuse(action, form, received);
  const decode = (text: string): string | undefined => {
    try {
      return decodeURIComponent(text) || undefined;
    } catch {
      refuse(action, `${form}, and its parts percent-encoded`, received);
    }
  };
  const parameter = parametersOf(parsed);
  const instanceName = parameter("instanceName");
  if (instanceName !== undefined && parsed.port !== "") {
    refuse(action, "the URL must have a port or an instanceName", "both");
  }
  const appName = parameter("appName");
  const encrypt = oneOf("encrypt", parameter("encrypt") ?? "true", ["true", "false", "strict"]);
  const trust = oneOf(
    "trustServerCertificate",
    parameter("trustServerCertificate") ?? "false",
    ["true", "false"],
  );
  return {
    server: parsed.hostname.replace(/^\[(.*)\]$/, "$1"),
    port: parsed.port === "" ? undefined : Number(parsed.port),
    user: credentials.username ?? decode(parsed.username),
    password: credentials.password ?? decode(parsed.password),
    database: decode(parsed.pathname.replace(/^\//, "")),
    validateConnection: "socket",
    pool: { max: count("max", parameter("max") ?? String(defaultMax)) },
    options: {
      encrypt: encrypt === "strict" ? encrypt : encrypt === "true",
      trustServerCertificate: trust === "true",
      ...(instanceName === undefined ? {} : { instanceName }),
      ...(appName === undefined ? {} : { appName }),
    },
  };
}

function parse(url: string): URL | undefined {
  try {
    return new URL(url);
  } catch {
    return undefined;
  }
}

function parametersOf({ searchParams }: URL): (name: string) => string | undefined {
  const names = [...searchParams.keys()];
  const allowed = `the parameters of the URL are ${parameterNames.join(", ")}, each once`;
  for (const [index, name] of names.entries()) {
    if (names.indexOf(name) !== index) refuse(action, allowed, `${name} twice`);
    // What is not known is not shown either: a password with an unencoded ? would be among it.
    if (!parameterNames.includes(name)) refuse(action, allowed, "another");
  }
  return (name) => searchParams.get(name) ?? undefined;
}

function oneOf(name: string, value: string, allowed: readonly string[]): string {
  if (allowed.includes(value)) return value;
  refuse(action, `${name} in the URL must be ${allowed.join(" or ")}`, "another");
}

function count(name: string, value: string): number {
  if (/^[1-9][0-9]{0,4}$/.test(value)) return Number(value);
  refuse(action, `${name} in the URL must be a number from 1 to 99999`, "another");
}
