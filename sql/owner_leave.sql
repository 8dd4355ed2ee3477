-- Releases everything and notifies the other replicas, if they listen.
-- $1 the lock classes and $2 the locks, memberships being negative, in this order; $3 the channel or '', $4 the payload.
-- Releases advisory locks.
select count(*) filter (where case when object < 0 then pg_advisory_unlock_shared(class, object) else pg_advisory_unlock(class, object) end),
       case when $3 <> '' and pg_notification_queue_usage() < 0.5 then pg_notify($3, $4)::text end
from unnest($1::integer[], $2::integer[]) lock (class, object)
