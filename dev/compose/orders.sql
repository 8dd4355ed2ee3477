create table orders (
  id        bigint generated always as identity primary key,
  customer  text not null,
  cents     integer not null,
  placed_at timestamptz not null default now()
);
