-- Returns the age in microseconds of the first pending row in table order, no row when there is none.
-- No locks. Sent only where an index of pending rows exists, of which it reads the head.
select case when isfinite({inserted_at}) then (extract(epoch from {inserted_now} - {inserted_at}) * 1000000)::bigint end
from {table}
where {pending}
order by {ordering}
limit 1
