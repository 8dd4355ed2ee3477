-- Returns for how many microseconds the first pending row in table order has been due; no row if none is due.
-- No locks. Sent only where an index of pending rows exists, of which it reads the beginning.
select case when isfinite({due_at}) then (extract(epoch from {inserted_now} - {due_at}) * 1000000)::bigint end
from {table}
where {due}
order by {ordering}
limit 1
