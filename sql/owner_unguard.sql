-- Releases the lock that owner_guard.sql takes.
-- $1 the group's lock class. Releases an advisory lock.
select pg_advisory_unlock($1, 2147483647)
