-- Lets one replica at a time look at the locks and acquire shards of a group, so that replicas of different kinds never own shards at
-- the same time.
-- $1 the group's lock class. Takes an advisory lock of the transaction.
select pg_try_advisory_xact_lock($1, 2147483647)
