-- The tables of @fencepost/store on SQL Server 2019 or later. Written by `deno task schema`.

if object_id(N'[cosid_range]') is null
create table [cosid_range] (
  range_key nvarchar(255) collate Latin1_General_100_BIN2 not null primary key,
  next_value bigint not null,
  sealed bit not null default 0
);

if object_id(N'[cosid_namespace]') is null
create table [cosid_namespace] (
  namespace nvarchar(100) collate Latin1_General_100_BIN2 not null primary key,
  slot_limit integer not null,
  tolerance_ms bigint not null
);

if object_id(N'[cosid_slot]') is null
create table [cosid_slot] (
  namespace nvarchar(100) collate Latin1_General_100_BIN2 not null,
  slot integer not null,
  owner_key nvarchar(255) collate Latin1_General_100_BIN2 null,
  incarnation nchar(36) collate Latin1_General_100_BIN2 null,
  last_owner_key nvarchar(255) collate Latin1_General_100_BIN2 null,
  fence bigint not null default 0,
  expires_at bigint not null default 0,
  floor_ms bigint not null default 0,
  ceiling_ms bigint not null default 0,
  next_floor_ms bigint not null default 0,
  primary key (namespace, slot)
);
