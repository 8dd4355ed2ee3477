-- Makes this session count as a replica, and lets the server end the session if it falls silent.
-- $1 the table's lock class, $2 the time to live in milliseconds, $3 the number that stands for its membership.
-- Takes an advisory lock, shared: (class, -number). The last column says whether the server is a standby.
select set_config('idle_session_timeout', $2::text, false), pg_advisory_lock_shared($1, -$3::integer), pg_is_in_recovery()
