-- Returns which transactions have ended. Sent after a read, if transactions that matter to the read were running.
select pg_current_snapshot()::text
