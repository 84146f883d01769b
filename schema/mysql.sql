-- The tables of @fencepost/store on MySQL 8.4 or later. Written by `deno task schema`.

create table if not exists `cosid_range` (
  range_key varchar(255) character set utf8mb4 collate utf8mb4_0900_bin not null
    primary key,
  next_value bigint not null,
  sealed boolean not null default false
) engine = InnoDB;

create table if not exists `cosid_namespace` (
  namespace varchar(100) character set utf8mb4 collate utf8mb4_0900_bin not null
    primary key,
  slot_limit integer not null,
  tolerance_ms bigint not null
) engine = InnoDB;

create table if not exists `cosid_slot` (
  namespace varchar(100) character set utf8mb4 collate utf8mb4_0900_bin not null,
  slot integer not null,
  owner_key varchar(255) character set utf8mb4 collate utf8mb4_0900_bin,
  incarnation char(36) character set utf8mb4 collate utf8mb4_0900_bin,
  last_owner_key varchar(255) character set utf8mb4 collate utf8mb4_0900_bin,
  fence bigint not null default 0,
  expires_at bigint not null default 0,
  floor_ms bigint not null default 0,
  ceiling_ms bigint not null default 0,
  next_floor_ms bigint not null default 0,
  primary key (namespace, slot)
) engine = InnoDB;
