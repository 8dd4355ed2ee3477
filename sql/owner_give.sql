-- Releases shards and notifies the other replicas, if they listen.
-- $1 the group's lock class, $2 the shards, $3 the channel or '', $4 the payload. Releases advisory locks.
select count(*) filter (where pg_advisory_unlock($1, shard)),
       case when $3 <> '' and pg_notification_queue_usage() < 0.5 then pg_notify($3, $4)::text end
from unnest($2::integer[]) shard
