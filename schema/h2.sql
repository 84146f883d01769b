-- The tables of @fencepost/store on H2 2.0 or later. Written by `deno task schema`.

create table if not exists "cosid_range" (
  range_key varchar(255) not null primary key,
  next_value bigint not null,
  sealed boolean not null default false
);
