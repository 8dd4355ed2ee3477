-- Releases all locks of the session and notifies the other replicas, if they listen.
-- $1 the channel or '', $2 the payload. Releases advisory locks.
select pg_advisory_unlock_all(),
       case when $1 <> '' and pg_notification_queue_usage() < 0.5 then pg_notify($1, $2)::text end
