-- The outbox table as outbox-relay recommends it, in a partition for each day (UTC). Insert into it in the transaction of your own change:
--   insert into {table} ({topic}, {key}, {payload}) values ('order.placed', 'order-17', '{"total": 42}');
-- Everything else has a default. {order} gives the order; rows with the same key are relayed one after another.
--
-- A day of which every row is done is dropped at once, which costs next to nothing, where deleting its rows costs as much as inserting
-- them did. `outbox-relay prune` and OUTBOX_PRUNE_AFTER do it with the second function below.
create table {table} (
  {id}          uuid not null default gen_random_uuid(),    -- the message id
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
{added}  {txid}        xid8 not null default pg_current_xact_id(), -- the inserting transaction, whatever is done to the row later
  primary key ({id}, {inserted_at})
) partition by range ({inserted_at});

-- Rows whose day has no partition yet go here, so that an insert never fails for lack of a partition. Such a day gets no
-- partition later; its rows are deleted one by one.
create table {default} partition of {table} default;

-- The relay reads pending rows in order, and only these are in this index: it stays as small as the
-- backlog, however many relayed rows the table keeps. Without it each poll reads the whole table.
create index {pending_index} on {table} ({order})
  where {relayed_at} is null and {failed_at} is null;

{ranked}-- Pending rows by their key, or by their id if they have none: a key of which a row was refused, or whose topic is missing, is read
-- by itself along this index. Without it each round of retries passes over all pending rows. It holds a hash of eight bytes, so that
-- long keys cost no more and never make an insert fail. Marks cost nothing more.
create index {key_index} on {table} (hashtextextended(coalesce({key} collate "C", {id}::text), 0), {rank}{order})
  where {relayed_at} is null and {failed_at} is null;

-- For counting and listing failed rows. It is empty while all is well, so it costs an insert nothing.
-- Without it the relay does not report how many rows have failed. With id it also gives the order among rows that failed at once.
create index {failed_index} on {table} ({failed_at}, {id})
  where {failed_at} is not null;

-- Rows are deleted along this index where a partition cannot be dropped whole.
create index {inserted_index} on {table} ({inserted_at});

-- Makes the partitions of today and the days to come. Run it at least once a day, by cron or pg_cron, as the owner of the table:
--   select {make}();
-- The function is bound to the table itself, so that it works with any search_path; so is the second one below. To drop the table, drop
-- both with it: drop table ... cascade.
create function {make_of}(outbox regclass, days integer) returns void
  language plpgsql
  set search_path = pg_catalog, pg_temp
  set timezone = 'UTC'
  set lock_timeout = '1s'
as $$
declare
  schema name;
  day date;
  name text;
  occupied boolean;
begin
  select n.nspname into schema from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = outbox;
  for day in select current_date + n from generate_series(0, days) n loop
    name := {name_literal} || to_char(day, 'YYYYMMDD');
    execute format('select exists (select from %s where {inserted_at_format} >= $1 and {inserted_at_format} < $1 + 1)', outbox) into occupied using day;
    if occupied or to_regclass(format('%I.%I', schema, name)) is not null then
      continue;
    end if;
    execute format('create table %I.%I partition of %s for values from (%L) to (%L)
      with (autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 5000, vacuum_truncate = off)',
      schema, name, outbox, day, day + 1);
  end loop;
end
$$;
create function {make}(days integer default 14) returns void
  language sql
  return {make_of}({table_literal}::regclass, days);
select {make}();

-- Drops a partition that ended before a time if every row of it has been done since before that time, and returns whether it did. It knows
-- the destinations that were configured when it was printed; prune also asks those that were added later. While it checks the rows, other sessions can read the partition and not change it. The drop itself locks the whole table for an instant, and
-- gives up rather than wait for this lock. The function runs with the rights of its owner, so that the role that prunes need not own
-- the table:
--   grant execute on function {drop} to outbox_relay;
create function {drop_of}(outbox regclass, partition regclass, cutoff timestamptz, failed boolean) returns boolean
  language plpgsql
  set search_path = pg_catalog, pg_temp
  set timezone = 'UTC'
  set lock_timeout = '200ms'
as $$
declare
  undone boolean;
begin
  if not exists (
    select from pg_class c join pg_inherits i on i.inhrelid = c.oid
    where c.oid = partition and i.inhparent = outbox
      and substring(pg_get_expr(c.relpartbound, c.oid) from $re$TO \('([^']*)'\)$re$)::timestamptz <= cutoff) then
    raise exception '% is not a partition of % that ends before %', partition, outbox, cutoff;
  end if;
  execute format('lock table %s in share mode', partition);
  execute format('select exists (select from %s where {undone})', partition) into undone using cutoff, failed;
  if undone then
    return false;
  end if;
  execute format('drop table %s', partition);
  return true;
exception when lock_not_available then
  return false;
end
$$;
create function {drop}(partition regclass, cutoff timestamptz, failed boolean default false) returns boolean
  language sql
  security definer
  set search_path = pg_catalog, pg_temp
  return {drop_of}({table_literal}::regclass, partition, cutoff, failed);
revoke all on function {drop}(regclass, timestamptz, boolean) from public;
