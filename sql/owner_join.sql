-- Makes this session count as a replica, and lets the server end it when it falls silent.
-- $1 the table's lock class, $2 the time to live in milliseconds. Takes an advisory lock, shared.
select set_config('idle_session_timeout', $2::text, false), pg_advisory_lock_shared($1, -1)
