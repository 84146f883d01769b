-- The tables of @fencepost/store on PostgreSQL 15 or later. Written by `deno task schema`.

create table if not exists "cosid_range" (
  range_key varchar(255) collate "C" not null primary key,
  next_value bigint not null,
  sealed boolean not null default false
);
