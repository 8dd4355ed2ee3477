-- Returns for how many microseconds the first pending row in table order that a destination takes has been due; no row if there
-- is none among the rows that it looks at.
-- No locks. Sent only where an index of pending rows exists, of which it reads a bounded part from the beginning.
select case when isfinite(due_at) then (extract(epoch from {inserted_now} - due_at) * 1000000)::bigint end
from (select {due_at} as due_at, {taken} as taken from {table} where {due} order by {ordering} limit {looked}) looked
where taken
limit 1
