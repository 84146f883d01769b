import { check, checkEqual } from "../check.ts";
import type { TckCase } from "../context.ts";

const terms = { namespace: "workers", limit: 1 };

/** A day, which no clock of two machines differs by. */
const dayMs = 86_400_000;

/** What is done with the data of a lease. */
export const dataCases: readonly TckCase[] = [
  {
    name:
      "a lease that stamps nothing gives its window back, also by its data, as often as it is taken",
    async run(context) {
      const { slots } = await context.open();
      const floors: number[] = [];
      for (let round = 0; round < 4; round++) {
        const lease = await slots.acquire({ ...terms, stamps: false });
        floors.push(lease.floorMs);
        const data = JSON.parse(JSON.stringify(lease));
        const renewed = await slots.renew(data);
        checkEqual(renewed.stamps, false);
        await slots.release(round % 2 === 0 ? data : lease);
      }
      checkEqual(new Set(floors).size, 1, "how many floors there were");
    },
  },
  {
    name: "a lease that stamps keeps its window if its data is released without a last use",
    async run(context) {
      const { slots } = await context.open();
      const lease = await slots.acquire(terms);
      await slots.release(JSON.parse(JSON.stringify(lease)));
      const state = await slots.inspect(terms.namespace);
      checkEqual(state?.slots[0]?.nextFloorMs, lease.ceilingMs + 1);
    },
  },
  {
    name: "data with a ceiling of its own moves no row further than a renewal does",
    async run(context) {
      const { slots } = await context.open();
      const lease = await slots.acquire(terms);
      const data = JSON.parse(JSON.stringify(lease));
      await slots.renew({ ...data, ceilingMs: 8_000_000_000_000_000 });
      const [row] = (await slots.inspect(terms.namespace))?.slots ?? [];
      check(row !== undefined, "the slot has a row");
      check(row.ceilingMs < Date.now() + dayMs, "the ceiling is that of a renewal");
      checkEqual(row.nextFloorMs, row.ceilingMs + 1);
    },
  },
];
