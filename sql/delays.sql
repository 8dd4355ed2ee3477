-- For rows that become due later: a row is not relayed before {available}; null means at once.
--   insert into {table} (topic, key, payload, {available}) values ('reminder.due', 'order-17', '{"total": 42}', now() + interval '1 day');
-- A row with {available} keeps no order: it neither waits for others of its key nor holds them back.
-- On a table in use, make each index by itself and with "create index concurrently".
alter table {table} add column if not exists {available} timestamptz;

-- Rows with {available}, by that time: the relay reads due rows from the beginning of this index, and sees when the next row becomes due.
-- Without it each read of due rows passes all rows that are scheduled for later.
create index if not exists {due_index} on {table} ({due_columns})
  where {pending} and {available} is not null;

-- All other rows, in order: reads of them do not meet the rows that are scheduled for later.
create index if not exists {undelayed_index} on {table} ({order_columns})
  where {pending} and {available} is null;

-- The index of all pending rows is then no longer needed, and only makes inserts slower:
-- drop index {pending_index};
