-- Gives shards back.
-- $1 the table's lock class, $2 the shards. Releases advisory locks.
select count(*) from unnest($2::integer[]) shard where pg_advisory_unlock($1, shard)
