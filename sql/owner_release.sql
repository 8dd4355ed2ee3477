-- Gives a unit back.
-- $1 the table's lock class, $2 the unit. Releases an advisory lock.
select pg_advisory_unlock($1, $2)
