-- Wakes the relays that listen, unless the server's queue of notifications is filling up: a full one makes commits fail.
-- $1 the channel, $2 the payload. Works through a transaction pooler.
select case when pg_notification_queue_usage() < 0.5 then pg_notify($1, $2)::text end
