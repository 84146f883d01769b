-- The tables of @fencepost/store on SQL Server 2019 or later. Written by `deno task schema`.

if object_id(N'[cosid_range]') is null
create table [cosid_range] (
  range_key nvarchar(255) collate Latin1_General_100_BIN2 not null primary key,
  next_value bigint not null,
  sealed bit not null default 0
);
