-- The tables of @fencepost/store on SQLite 3.35 or later. Written by `deno task schema`.

create table if not exists "cosid_range" (
  range_key varchar(255) not null primary key,
  next_value bigint not null,
  sealed boolean not null default false
);

create table if not exists "cosid_namespace" (
  namespace varchar(100) not null primary key,
  slot_limit integer not null,
  tolerance_ms bigint not null
);

create table if not exists "cosid_slot" (
  namespace varchar(100) not null,
  slot integer not null,
  owner_key varchar(255),
  incarnation char(36),
  last_owner_key varchar(255),
  fence bigint not null default 0,
  expires_at bigint not null default 0,
  floor_ms bigint not null default 0,
  ceiling_ms bigint not null default 0,
  next_floor_ms bigint not null default 0,
  primary key (namespace, slot)
);
