-- The tables of @fencepost/store on MySQL 8.4 or later. Written by `deno task schema`.

create table if not exists `cosid_range` (
  range_key varchar(255) character set utf8mb4 collate utf8mb4_0900_bin not null
    primary key,
  next_value bigint not null,
  sealed boolean not null default false
) engine = InnoDB;
