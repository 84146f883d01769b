/**
 * The package.json of the npm package. The names, versions and entries in it are those of deno.json.
 *
 * @module
 */

import config from "../../deno.json" with { type: "json" };

/** Where an entry's code and types are. */
export interface EntryTarget {
  /** Its declarations. */
  readonly types: string;
  /** Its code, for `import`. */
  readonly import: string;
  /** Its code, for whoever knows no other condition. */
  readonly default: string;
}

/** A package.json, as far as this package has one. */
export interface Manifest {
  readonly name: string;
  readonly version: string;
  readonly description: string;
  readonly keywords: readonly string[];
  readonly license: string;
  readonly type: "module";
  readonly sideEffects: false;
  readonly engines: Readonly<Record<string, string>>;
  readonly main: string;
  readonly types: string;
  readonly exports: Readonly<Record<string, EntryTarget>>;
  /** The drivers: a user installs those that they use. */
  readonly peerDependencies: Readonly<Record<string, string>>;
  readonly peerDependenciesMeta: Readonly<Record<string, { readonly optional: true }>>;
}

/** The drivers that an application may bring. */
export const drivers = ["@electric-sql/pglite", "mssql", "mysql2", "pg", "postgres"] as const;

/** The package.json, out of the one that `deno pack` wrote. */
export function manifestOf(packed: Pick<Manifest, "main" | "types" | "exports">): Manifest {
  const { name, version, license } = config;
  return {
    name,
    version,
    description: "Identifiers that never repeat, over the SQL database and the driver you have",
    keywords: [
      "id",
      "id-generator",
      "range",
      "sequence",
      "distributed",
      "postgresql",
      "mysql",
      "mariadb",
      "sqlserver",
      "sqlite",
      "h2",
    ],
    license,
    type: "module",
    sideEffects: false,
    engines: { node: ">=20" },
    main: packed.main,
    types: packed.types,
    exports: packed.exports,
    peerDependencies: Object.fromEntries(drivers.map((driver) => [driver, rangeOf(driver)])),
    peerDependenciesMeta: Object.fromEntries(drivers.map((driver) => [driver, { optional: true }])),
  };
}

/** The versions of a driver that the tests import: "npm:pg@^8.1.0" is "^8.1.0". */
export function rangeOf(driver: typeof drivers[number]): string {
  const imported: string = config.imports[driver];
  const prefix = `npm:${driver}@`;
  if (!imported.startsWith(prefix)) {
    throw new Error(`Cannot tell the versions of ${driver}: received ${imported}`);
  }
  return imported.slice(prefix.length);
}
