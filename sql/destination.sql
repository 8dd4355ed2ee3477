-- For destination {name} of table {table}: columns of its own for the state of each row there, and their indexes.
-- Run it as the owner of the table, before a relay with this destination is started. It may be run again.
-- Adding the columns locks the whole table for a moment, while inserts wait. Let it give up rather than wait for a long transaction:
--   set lock_timeout = '2s';
{existing}{columns}
-- The transaction that inserted a row. Without this column, rows that other destinations have updated look as if they had been
-- committed late.
alter table {table} add column if not exists {txid} xid8 not null default pg_current_xact_id();

-- The destination's pending rows in their order, and no others. The predicate contains the destination's filter, because rows that the
-- destination never takes would stay in the index for ever. After a change of the filter, drop the index and create it again.
-- Inserts wait while it is created, unless "create index concurrently" is used, by itself; that does not work on a partitioned table.
{pending_index}
