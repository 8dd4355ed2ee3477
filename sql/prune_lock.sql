-- Lets one replica at a time delete old rows. The lock is the session's.
-- $1 and $2 the lock. Takes an advisory lock.
select pg_try_advisory_lock($1, $2)
