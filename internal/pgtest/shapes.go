package pgtest

// Tables that applications already have, which the relay serves unchanged.
const (
	// ShapeA is the table of a documented migration: nullable headers and attempt, times without zone.
	ShapeA = `
create table outbox_messages (
  id uuid default gen_random_uuid(),
  topic varchar(255) not null,
  payload jsonb not null,
  headers jsonb default '{}',
  attempt integer default 1,
  relayed_at timestamp,
  failed_at timestamp,
  last_error varchar(255),
  inserted_at timestamp not null,
  updated_at timestamp not null,
  primary key (id));
create index on outbox_messages (relayed_at, inserted_at);
create index on outbox_messages (failed_at);`

	// ShapeB is the table that that library's generator writes: partial indexes, last_error as text.
	ShapeB = `
create table outbox_messages (
  id uuid default gen_random_uuid(),
  topic varchar(255) not null,
  payload jsonb not null,
  headers jsonb not null default '{}',
  attempt integer not null default 1,
  relayed_at timestamp,
  failed_at timestamp,
  last_error text,
  inserted_at timestamp not null,
  updated_at timestamp not null,
  primary key (id));
create index on outbox_messages (relayed_at, inserted_at) where relayed_at is null and failed_at is null;
create index on outbox_messages (failed_at) where failed_at is not null;`

	// ShapeC is a table designed by an application: bigserial ids, whole seconds, attempts from 0, no indexes.
	ShapeC = `
create table outbox_messages (
  id bigserial primary key,
  topic varchar(255) not null,
  payload jsonb not null,
  headers jsonb default '{}',
  attempt integer default 0,
  relayed_at timestamp,
  failed_at timestamp,
  last_error varchar(255),
  inserted_at timestamp(0) not null,
  updated_at timestamp(0) not null);`
)

// Insert is a statement that inserts one row into any of the shapes: $1 topic, $2 payload.
const Insert = `insert into outbox_messages (topic, payload, inserted_at, updated_at)
values ($1, $2, now() at time zone 'UTC', now() at time zone 'UTC')`
