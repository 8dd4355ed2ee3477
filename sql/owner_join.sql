-- Makes this session count as a replica of some groups, and lets the server end the session if it falls silent.
-- $1 the lock classes, $2 the numbers that stand for its memberships there, $3 the time to live in milliseconds, $4 a random number,
-- by whose lock other connections find the session.
-- Takes advisory locks: (class, -number), shared, and $4. The last column says whether the server is a standby.
select set_config('idle_session_timeout', $3::text, false), set_config('idle_in_transaction_session_timeout', $3::text, false),
  count(pg_advisory_lock_shared(class, -number)::text),
  pg_advisory_lock($4)::text, pg_is_in_recovery()
from unnest($1::integer[], $2::integer[]) member (class, number)
