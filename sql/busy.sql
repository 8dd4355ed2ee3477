-- Returns the sessions for which the server is working at present. A session that waits for its client, to read from it or to
-- write to it, is not included. A session of another role is included, since its state cannot be seen.
-- The second column says whether the session's commit waits for a synchronous standby.
-- $1 the process ids of the sessions.
select pid::bigint, wait_event is not distinct from 'SyncRep'
from pg_catalog.pg_stat_activity
where pid = any ($1::bigint[])
  and (state is null or state <> 'idle' and wait_event_type is distinct from 'Client')
