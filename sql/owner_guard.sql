-- Lets one replica at a time look at the locks and take shards, so that replicas of different kinds never both do.
-- $1 the table's lock class. Takes an advisory lock of the session.
select pg_try_advisory_lock($1, 2147483647)
