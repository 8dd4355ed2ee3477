-- Tries to become the owner of a unit, without waiting.
-- $1 the table's lock class, $2 the unit. Takes an advisory lock.
select pg_try_advisory_lock($1, $2)
