-- Tells the doorbell trigger that this relay wants to be notified by each writer. A writer that was cancelled
-- can have left the lock taken, so it is only tried.
-- $1 the table's quoted name. Takes an advisory lock, shared.
select coalesce(pg_try_advisory_lock_shared({class}, to_regclass($1)::integer), false)
