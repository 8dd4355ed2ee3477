-- Wakes the relays that listen.
-- $1 the channel, $2 the payload. Works through a transaction pooler.
select pg_notify($1, $2)
