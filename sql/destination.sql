-- What destination {name} needs of table {table}: columns of its own for what becomes of each row there, and their indexes.
-- Run it as the owner of the table, before a relay is started that is configured with the destination. It may be run again.
-- The columns take a lock of the whole table for a moment, behind which inserts wait. Let it give up rather than wait for a long transaction:
--   set lock_timeout = '2s';
{existing}
do $outbox$
begin
  if not exists (select from pg_catalog.pg_attribute where attrelid = {oid} and attname = {relayed_name} and not attisdropped) then
    alter table {table} add column {relayed} timestamptz{default};
    {rows}
  end if;
end $outbox$;
{columns}
-- Which transaction has inserted a row, whatever other destinations write into it: without it what they write makes rows look as if they had been
-- committed late.
alter table {table} add column if not exists {txid} xid8 not null default pg_current_xact_id();

-- The destination's pending rows in their order, and no others: its predicate has the destination's filter, since rows that the destination never takes
-- would stay in the index for ever. When the filter has changed, drop the index and make it again.
-- While it is made, inserts wait. They do not with "create index concurrently", which is run by itself, and not on a partitioned table.
{pending_index}
