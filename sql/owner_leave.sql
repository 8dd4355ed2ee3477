-- Releases everything, the membership first, so that the other replicas no longer count this one when they are notified.
-- $1 the table's lock class, $2 the shards, $3 the channel or '', $4 the payload, $5 the membership.
-- Releases advisory locks.
select pg_advisory_unlock_shared($1, -$5::integer),
       count(*) filter (where pg_advisory_unlock($1, shard)),
       case when $3 <> '' then pg_notify($3, $4)::text end
from unnest($2::integer[]) shard
