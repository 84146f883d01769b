/**
 * What the tests know of a database: whether this machine can run it, how to start one that is
 * theirs alone, and how to be rid of it. A started database is empty, listens on the loopback
 * only, keeps its files in a temporary folder, and does not outlive the process that started it.
 *
 * @module
 */

/** How a database is started. */
export interface StartOptions {
  /**
   * Leaves the durable defaults of the database in place: what it committed survives a crash.
   *
   * @default {false}
   */
  readonly durable?: boolean;
}

/** A database that the tests can start. */
export interface TestServer {
  /** Names the database and, where there can be several, its version: "postgresql-15", "h2". */
  readonly name: string;
  /** Why it cannot run on this machine, in one line that says what to install. */
  unavailable(): Promise<string | undefined>;
  /** Starts one; resolves when it answers. */
  start(options?: StartOptions): Promise<RunningServer>;
}

/** What a test has to know of a running database. */
export interface ServerAddress {
  /** The name of its {@linkcode TestServer}. */
  readonly name: string;
  /** As the library takes it: `postgres://…`, `mysql://…`, `sqlite:<file>`, `pglite:<folder>`. */
  readonly url: string;
  /** The version that it reports. */
  readonly version: string;
}

/** A database that the tests started. */
export interface RunningServer extends ServerAddress, AsyncDisposable {
  /** Ends it and removes its folder; does nothing the second time. */
  stop(): Promise<void>;
}
