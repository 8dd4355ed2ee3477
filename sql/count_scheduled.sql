-- Counts pending rows that are not due yet up to a cap.
-- $1 the cap. No locks. Sent only where rows can be due later and an index of pending rows exists.
select count(*) from (select 1 from {table} where {scheduled} limit $1) scheduled
