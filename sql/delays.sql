-- For rows that are due later: a row is not relayed before {available}, and null is at once.
--   insert into {table} (topic, key, payload, {available}) values ('reminder.due', 'order-17', '{"total": 42}', now() + interval '1 day');
-- A row with {available} keeps no order: it neither waits for others of its key nor holds them back.
-- On a table in use, make each index by itself and with "create index concurrently".
alter table {table} add column if not exists {available} timestamptz;

-- Rows with {available}, by that time: the relay reads what is due from its beginning, and sees when the next row will be.
-- Without it each look for them reads past all rows that are scheduled for later.
create index if not exists {due_index} on {table} ({due_columns})
  where {pending} and {available} is not null;

-- All others, in order: reads of them do not meet the rows that are scheduled for later.
create index if not exists {undelayed_index} on {table} ({order_columns})
  where {pending} and {available} is null;
{ranked}
-- The index of all pending rows is needed no longer then, and only costs inserts:
-- drop index {pending_index};
