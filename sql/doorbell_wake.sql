-- Tells the doorbell trigger that this relay is awake.
-- $1 the table as schema.table. Releases an advisory lock.
select pg_advisory_unlock_shared(hashtext('outbox-relay:doorbell'), hashtext($1))
