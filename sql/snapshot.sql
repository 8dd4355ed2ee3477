-- Tells which transactions have ended. Sent behind a read, when some were running that matter to it.
select pg_current_snapshot()::text
