-- Counts pending rows that are due up to a cap, so that it costs the same at any backlog.
-- $1 the cap. No locks. Sent only where an index of pending rows exists.
select count(*) from (select 1 from {table} where {due} limit $1) pending
