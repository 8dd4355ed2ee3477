-- The outbox table as outbox-relay recommends it. Insert into it in the transaction of your own change:
--   insert into {table} ({topic}, {key}, {payload}) values ('order.placed', 'order-17', '{"total": 42}');
-- Everything else has a default. {order} gives the order; rows with the same key are relayed one after another.
create table {table} (
  {id}          uuid primary key default gen_random_uuid(), -- the message id
  {seq}         bigint generated always as identity,
  {topic}       text not null,
  {key}         text,                                       -- null: the row has no order
  {payload}     jsonb not null,
  {headers}     jsonb not null default '{}',
  {attempt}     integer not null default 1,                 -- number of the next attempt
  {relayed_at}  timestamptz,                                -- the broker has it
  {failed_at}   timestamptz,                                -- given up, after the last attempt
  {last_error}  text,
  {inserted_at} timestamptz not null default now(),
  {updated_at}  timestamptz not null default now(),
{added}  {txid}        xid8 not null default pg_current_xact_id()  -- the inserting transaction, whatever is done to the row later
) with (
  -- Each relayed row leaves a dead version behind. The default of 20 % of the table would let them pile
  -- up at the head of the pending index, where every read of the relay has to step over them.
  autovacuum_vacuum_scale_factor = 0.01,
  autovacuum_vacuum_threshold = 5000,
  -- Giving empty pages back at the end of the table takes a lock that stops inserts, on every replica
  -- too; the space is soon used again.
  vacuum_truncate = off
  -- fillfactor stays at its default. An update of relayed_at cannot be a heap-only one, because the
  -- pending index depends on it; free space in the pages then saved 8 % of the WAL and no time.
);

-- The relay reads pending rows in order, and only these are in this index: it stays as small as the
-- backlog, however many relayed rows the table keeps. Without it each poll reads the whole table.
create index {pending_index} on {table} ({rank}{order})
  where {relayed_at} is null and {failed_at} is null;

-- Pending rows by their key, or by their id if they have none: a key of which a row was refused, or whose topic is missing, is read
-- by itself along this index. Without it each round of retries passes over all pending rows. It holds a hash of eight bytes, so that
-- long keys cost no more and never make an insert fail. Marks cost nothing more.
create index {key_index} on {table} (hashtextextended(coalesce({key} collate "C", {id}::text), 0), {rank}{order})
  where {relayed_at} is null and {failed_at} is null;

-- For counting and listing failed rows. It is empty while all is well, so it costs an insert nothing.
-- Without it the relay does not report how many rows have failed. With id it also gives the order among rows that failed at once.
create index {failed_index} on {table} ({failed_at}, {id})
  where {failed_at} is not null;
