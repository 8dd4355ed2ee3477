-- Returns the sessions for which the server is working at present. A session that waits for its client, to read from it or to
-- write to it, is not included. A session of another role is included, since its state cannot be seen.
-- $1 the process ids of the sessions.
select pid::bigint
from pg_catalog.pg_stat_activity
where pid = any ($1::bigint[])
  and (state is null or state <> 'idle' and wait_event_type is distinct from 'Client')
