-- Keeps replicas with different numbers of shards from deciding at the same time.
-- $1 the table's lock class. Takes an advisory lock of the session.
select pg_try_advisory_lock($1, 2147483647)
