-- Lets one replica at a time look at the locks and acquire shards of a group, so that replicas of different kinds never own shards at
-- the same time. Versions without groups do the same with the second lock, in exclusive mode.
-- $1 the group's lock class, $2 the class of the shards of the table's own columns. Takes advisory locks of the session.
select pg_try_advisory_lock($1, 2147483645), pg_try_advisory_lock_shared($2, 2147483647)
