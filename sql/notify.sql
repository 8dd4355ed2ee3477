-- Wakes the relays that listen.
-- $1 the channel. Works through a transaction pooler.
select pg_notify($1, '')
