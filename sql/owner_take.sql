-- Tries to acquire shards, without waiting, and returns those that it acquired.
-- $1 the group's lock class, $2 the shards. Takes advisory locks.
select shard from unnest($2::integer[]) shard where pg_try_advisory_lock($1, shard)
