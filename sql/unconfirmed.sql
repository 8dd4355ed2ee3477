-- Says whether a commit of this role has waited for a synchronous standby for a while. A commit is not ended by
-- statement_timeout.
select exists (select from pg_catalog.pg_stat_activity
  where usename = current_user and wait_event = 'SyncRep' and clock_timestamp() - state_change > interval '5 seconds')
