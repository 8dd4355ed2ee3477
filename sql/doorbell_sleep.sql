-- Makes the doorbell trigger notify this relay of each insert. The lock is only tried, because a writer may hold it for a moment.
-- $1 the table's quoted name. Takes an advisory lock, shared.
select coalesce(pg_try_advisory_lock_shared({class}, to_regclass($1)::integer), false)
