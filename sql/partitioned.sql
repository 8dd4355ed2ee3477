-- The outbox table as outbox-relay recommends it, in a partition for each day (UTC). Insert into it in the transaction of your own change:
--   insert into {table} ({topic}, {key}, {payload}) values ('order.placed', 'order-17', '{"total": 42}');
-- Everything else has a default. {order} gives the order; rows with the same key are relayed one after another.
--
-- A day of which every row is done is dropped at once, by the second function below. That costs next to nothing, where deleting its rows,
-- as `outbox-relay prune` does, costs as much as inserting them did.
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

-- Drops the oldest partition that ended so long ago and of which every row has been done for so long, and returns its name; null if there
-- is none. Run it every hour, as the owner of the table, with failed => true if failed rows count as done:
--   select {drop}('7 days');
-- It knows the destinations that were configured when it was printed, and refuses while the table has columns of others: then print it
-- again. Only a partition that seems to be done is locked, while its rows are checked once more; other sessions can read it meanwhile and not
-- change it. The drop itself locks the whole table for an instant, and gives up rather than wait for this lock.
create or replace function {drop_of}(outbox regclass, age interval, failed boolean) returns text
  language plpgsql
  set search_path = pg_catalog, pg_temp
  set timezone = 'UTC'
  set lock_timeout = '200ms'
as $$
declare
  look constant text := 'select exists (select from %s where {undone})';
  cutoff timestamptz := now() - age;
  partition text;
  other name;
  undone boolean;
begin
  select attname into other from pg_attribute
  where attrelid = outbox and attnum > 0 and not attisdropped and attname <> all (array[{known}]::name[])
    and col_description(attrelid, attnum) like {state};
  if found then
    raise exception 'column % keeps the state of a destination that this function does not know', other
      using hint = 'Apply the function that outbox-relay schema --partitioned prints now.';
  end if;
  for partition in
    select c.oid::regclass::text
    from pg_inherits i join pg_class c on c.oid = i.inhrelid,
      cast(substring(pg_get_expr(c.relpartbound, c.oid) from $re$TO \('([^']*)'\)$re$) as timestamptz) ended
    where i.inhparent = outbox and c.relkind = 'r' and ended <= cutoff
    order by ended
  loop
    execute format(look, partition) into undone using cutoff, failed;
    if undone then
      continue;
    end if;
    execute format('lock table %s in share mode', partition);
    execute format(look, partition) into undone using cutoff, failed;
    if not undone then
      execute format('drop table %s', partition);
      return partition;
    end if;
  end loop;
  return null;
exception when lock_not_available then
  return null;
end
$$;
create or replace function {drop}(age interval, failed boolean default false) returns text
  language sql
  return {drop_of}({table_literal}::regclass, age, failed);
