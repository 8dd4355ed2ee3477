-- Releases the locks that owner_guard.sql takes.
-- $1 and $2 the classes, $3 and $4 which of the two locks. Releases advisory locks.
select case when $3 then pg_advisory_unlock($1, 2147483645) end, case when $4 then pg_advisory_unlock_shared($2, 2147483647) end
