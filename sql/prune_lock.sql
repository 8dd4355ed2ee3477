-- Lets one replica at a time delete old rows.
-- $1 and $2 the lock, $3 whether it is the session's; otherwise it is the transaction's. Takes an advisory lock.
select case when $3 then pg_try_advisory_lock($1, $2) else pg_try_advisory_xact_lock($1, $2) end
