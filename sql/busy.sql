-- Tells for which sessions the server works at present. One that waits for its client, to read from it or to write to it, is not
-- among them, and one of another role is, since it does not show what it does.
-- $1 the process ids of the sessions.
select pid::bigint
from pg_catalog.pg_stat_activity
where pid = any ($1::bigint[])
  and (state is null or state <> 'idle' and wait_event_type is distinct from 'Client')
