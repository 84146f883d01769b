import {
  ConfigurationError,
  FencepostError,
  LeaseLostError,
  StoreError,
} from "../../../core/errors.ts";
import type { SlotLease } from "../../../core/slot/slot_lease.ts";
import { sql } from "../../../core/sql/statement.ts";
import { check, checkEqual, checkRejects } from "../check.ts";
import type { TckCase, TckContext, TckTransaction } from "../context.ts";
import { anyAhead, forged, Rig, slotTable, terms, toleranceMs, ttlMs } from "./common.ts";

/** How often a transaction looks whether it still has what it asserted. */
const looks = 12;

/** Another process's acquire. */
const takeover = terms({ limit: 1, ownerKey: "two", maxAheadMs: anyAhead });

interface Expired {
  readonly rig: Rig;
  readonly lease: SlotLease;
}

/** A lease that has expired and that nobody took; calls end by the platform's clock. */
async function openExpired(context: TckContext): Promise<Expired> {
  const rig = await Rig.open(context, { runtime: undefined, timeoutMs: 30_000 });
  const lease = await rig.slots.acquire(terms({ limit: 1, ownerKey: "one" }));
  rig.clock.advance(ttlMs + toleranceMs);
  return { rig, lease };
}

/** Fails unless what was begun waits for the transaction, which has the lease until it ends. */
async function checkWaits(
  begun: Promise<unknown>,
  { rig, lease, transaction }: Expired & { transaction: TckTransaction },
): Promise<void> {
  let done = false;
  begun.then(() => done = true, () => done = true);
  for (let look = 0; look < looks; look++) {
    await rig.slots.assertHeld(lease, transaction.handle);
    check(!done, "it did not wait for the transaction");
  }
}

/** Has a transaction see only what was committed by now, where the database can. */
async function keepSnapshot(context: TckContext, transaction: TckTransaction): Promise<void> {
  const { family } = await context.client();
  if (family === "postgresql") {
    await transaction.session.query(sql`set transaction isolation level repeatable read`);
  }
  await transaction.session.query(sql`select count(*) as slots from ${slotTable(context)}`);
}

const endings = ["commit", "rollback"] as const;

const waitingCases: readonly TckCase[] = endings.flatMap((end) => [
  {
    name: `a takeover that begins after a lease was asserted waits for the ${end}`,
    async run(context: TckContext) {
      const expired = await openExpired(context);
      const { rig, lease } = expired;
      const slots = await rig.another();
      const transaction = await context.begin();
      await rig.slots.assertHeld(lease, transaction.handle);
      const taking = slots.acquire(takeover);
      await checkWaits(taking, { ...expired, transaction });
      await transaction[end]();
      const taken = await taking;
      await rig.checkBelieved(taken);
      checkEqual([taken.fence, taken.floorMs > lease.ceilingMs], [2, true]);
    },
  },
  {
    name: `a renewal that begins after a lease was asserted waits for the ${end}, and is made`,
    async run(context: TckContext) {
      const expired = await openExpired(context);
      const { rig, lease } = expired;
      const transaction = await context.begin();
      await rig.slots.assertHeld(lease, transaction.handle);
      const renewal = rig.slots.renew(lease);
      await checkWaits(renewal, { ...expired, transaction });
      await transaction[end]();
      await renewal;
      await rig.checkBelieved(lease);
    },
  },
]);

/** What makes sure, inside a transaction of the application's, that a lease is held. */
export const assertCases: readonly TckCase[] = [
  ...waitingCases,
  {
    name: "a lease is asserted inside the application's transaction, as often as it likes",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms());
      const row = await rig.row(lease);
      for (const end of endings) {
        const transaction = await context.begin();
        await rig.slots.assertHeld(lease, transaction.handle);
        await rig.slots.assertHeld(JSON.parse(JSON.stringify(lease)), transaction.handle);
        await transaction[end]();
        checkEqual(await rig.row(lease), row, `the row after ${end}`);
      }
      rig.clock.advance(ttlMs);
      const transaction = await context.begin();
      await rig.slots.assertHeld(lease, transaction.handle);
      await transaction.rollback();
      await rig.slots.renew(lease);
    },
  },
  {
    name: "what was written beside an asserted lease is there once the transaction has committed",
    async run(context) {
      const rig = await Rig.open(context);
      const [lease, spare] = [
        await rig.slots.acquire(terms()),
        await rig.slots.acquire(terms()),
      ];
      for (const [end, fence] of [["rollback", 1], ["commit", 7]] as const) {
        const transaction = await context.begin();
        await rig.slots.assertHeld(lease, transaction.handle);
        await transaction.session.query(sql`
          update ${slotTable(context)} set fence = ${7}
          where namespace = ${spare.namespace} and slot = ${spare.slot}
        `);
        await rig.slots.assertHeld(lease, transaction.handle);
        await transaction[end]();
        checkEqual((await rig.row(spare)).fence, fence, end);
      }
    },
  },
  {
    name: "who holds a slot no longer is refused, and the transaction can be rolled back",
    async run(context) {
      const rig = await Rig.open(context);
      const options = terms({ limit: 1, ownerKey: "one", maxAheadMs: anyAhead });
      const old = await rig.slots.acquire(options);
      const lease = await rig.slots.acquire(options);
      const wrong = {
        "an old term": old,
        "an old fence": forged(lease, { fence: 1 }),
        "a later fence": forged(lease, { fence: 3 }),
        "another incarnation": forged(lease, { incarnation: crypto.randomUUID() }),
        "another namespace": forged(lease, { namespace: "others" }),
        "another slot": forged(lease, { slot: 1 }),
      };
      for (const [what, one] of Object.entries(wrong)) {
        const transaction = await context.begin();
        const error = await checkRejects(
          rig.slots.assertHeld(one, transaction.handle),
          LeaseLostError,
        );
        checkEqual(
          [error.slot, error.fence, error.reason],
          [one.slot, one.fence, "replaced"],
          what,
        );
        await transaction.rollback();
      }
      await rig.slots.release(lease);
      const transaction = await context.begin();
      await checkRejects(rig.slots.assertHeld(lease, transaction.handle), LeaseLostError);
      await transaction.rollback();
    },
  },
  {
    name: "a takeover waits also for a transaction that sees only what was committed before it",
    async run(context) {
      const expired = await openExpired(context);
      const { rig, lease } = expired;
      const slots = await rig.another();
      const transaction = await context.begin();
      await keepSnapshot(context, transaction);
      await rig.slots.assertHeld(lease, transaction.handle);
      const taking = slots.acquire(takeover);
      await checkWaits(taking, { ...expired, transaction });
      await transaction.commit();
      await rig.checkBelieved(await taking);
    },
  },
  {
    name: "an old holder does not pass though its transaction does not see the takeover",
    async run(context) {
      const { rig, lease } = await openExpired(context);
      const slots = await rig.another();
      const transaction = await context.begin();
      await keepSnapshot(context, transaction);
      const held = await slots.acquire({ ...takeover, timeoutMs: 1_000 })
        .then(() => false, (error) => {
          if (!(error instanceof FencepostError)) throw error;
          // One connection, or a lock on all of the database: nobody takes anything meanwhile.
          check(error.code === "TIMEOUT" || error.code === "IN_TRANSACTION", `${error}`);
          return true;
        });
      const asserted = rig.slots.assertHeld(lease, transaction.handle);
      if (held) {
        await asserted;
      } else {
        const error = await checkRejects(asserted, FencepostError);
        const lost = error instanceof LeaseLostError ||
          (error instanceof StoreError && context.dialect.isRetryable(error.kind));
        check(lost, `${error}`);
      }
      await transaction.rollback();
    },
  },
  {
    name: "what is no transaction of the driver's is refused, with what it must be",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms());
      for (const handle of [undefined, null, 7, "begin", {}, [], () => {}, lease]) {
        const error = await checkRejects(
          rig.slots.assertHeld(lease, handle),
          ConfigurationError,
        );
        check(error.message.includes("transaction"), error.message);
      }
    },
  },
  {
    name: "an assertion whose signal has aborted sends nothing, and rejects with the reason",
    async run(context) {
      const rig = await Rig.open(context);
      const lease = await rig.slots.acquire(terms());
      const transaction = await context.begin();
      const reason = new Error("enough");
      const asserted = rig.slots.assertHeld(lease, transaction.handle, {
        signal: AbortSignal.abort(reason),
      });
      checkEqual(await asserted.then(() => "done", (error) => error === reason), true);
      await rig.slots.assertHeld(lease, transaction.handle, { timeoutMs: 30_000 });
      await transaction.commit();
    },
  },
];
