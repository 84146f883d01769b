import {
  Dialect,
  type Feature,
  type Identifier,
  maxValue,
  nextValueOf,
  type PresentTables,
  type RangeRow,
  type ReserveRequest,
  type ServerInfo,
  type Session,
  type SlotUpdate,
  sql,
  type Statement,
  type StoreErrorKind,
  type Tables,
} from "@fencepost/store";
import { postgresqlDialect } from "@fencepost/store/postgresql";

/** PostgreSQL with a reserve that updates first: it leaves the rest to the built-in dialect. */
export class MyPostgresqlDialect extends Dialect {
  override readonly name = "my-postgresql";

  override readonly nowMillis = sql`trunc(date_part('epoch', clock_timestamp()) * 1000)::bigint`;

  override async reserve(session: Session, request: ReserveRequest): Promise<bigint | undefined> {
    const { table, key, size, initialOffset, nonce } = request;
    const result = await session.query(sql`
      with
        raised as (
          update ${table} set next_value = next_value + ${size}
          where range_key = ${key} and not sealed and next_value <= ${maxValue - size}
          returning next_value
        ),
        started as (
          insert into ${table} (range_key, next_value)
          select ${key}::varchar, ${initialOffset + size}::bigint
          where not exists (select from raised)
            and not exists (select from ${table} where range_key = ${key})
          returning next_value
        )
      select next_value, ${nonce}::bigint as nonce from raised
      union all
      select next_value, ${nonce}::bigint as nonce from started
    `);
    return nextValueOf(result, request);
  }

  // Two that start one key at once: the second fails, having changed nothing, and finds the row then.
  override isRetryable(kind: StoreErrorKind): boolean {
    return super.isRetryable(kind) || kind === "duplicate";
  }

  override insertRangeIfAbsent(row: RangeRow): Statement {
    return postgresqlDialect.insertRangeIfAbsent(row);
  }

  // Without `takeSlot` an acquire takes two statements: one that reads, and one that writes.
  override readonly returnsSlots = postgresqlDialect.returnsSlots;

  override updateSlot(update: SlotUpdate): Statement {
    // By this dialect's clock, which is the one that leases are read with.
    return postgresqlDialect.updateSlot.call(this, update);
  }

  override supports(server: ServerInfo) {
    return postgresqlDialect.supports(server);
  }

  override schema(feature: Feature, tables: Tables) {
    return postgresqlDialect.schema(feature, tables);
  }

  override columns(session: Session, table: Identifier) {
    return postgresqlDialect.columns(session, table);
  }

  override weaknesses(session: Session, tables: PresentTables) {
    return postgresqlDialect.weaknesses(session, tables);
  }

  override classify(error: unknown) {
    return postgresqlDialect.classify(error);
  }
}
