-- Tells the doorbell trigger that this relay sleeps and wants to be notified. A writer that was cancelled
-- can have left the lock taken, so it is only tried.
-- $1 the table as schema.table. Takes an advisory lock, shared.
select pg_try_advisory_lock_shared(hashtext('outbox-relay:doorbell'), hashtext($1))
