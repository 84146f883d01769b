/**
 * Stands in for `@std/testing/bdd` where JSR cannot be reached. What is here has the name and the
 * signature of the real one, so that the `links` line in deno.json can go without another change.
 *
 * @module
 */
import * as runner from "node:test";

/** What a case or a hook runs. */
export type Body = () => void | PromiseLike<void>;

/** Groups cases. */
export function describe(name: string, fn: () => void): void {
  runner.describe(name, fn);
}

/** A case. */
export function it(name: string, fn: Body): void {
  runner.it(name, async () => await fn());
}

/** Runs once before the cases of the group. */
export function beforeAll(fn: Body): void {
  runner.before(async () => await fn());
}

/** Runs once after the cases of the group. */
export function afterAll(fn: Body): void {
  runner.after(async () => await fn());
}

/** Runs before each case of the group. */
export function beforeEach(fn: Body): void {
  runner.beforeEach(async () => await fn());
}

/** Runs after each case of the group. */
export function afterEach(fn: Body): void {
  runner.afterEach(async () => await fn());
}
