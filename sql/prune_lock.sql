-- Lets one replica at a time delete old rows.
-- $1 and $2 the lock, which is the session's. Takes an advisory lock.
select pg_try_advisory_lock($1, $2)
