-- Returns in how many microseconds the next pending row becomes due, of whichever shard or destination; no row, or null, when none is scheduled.
-- No locks. Leans on the index of due times, of which it reads one entry.
select case when isfinite({available}) then greatest((extract(epoch from {available} - {available_now}) * 1000000)::bigint, 1) end
from {table}
where {upcoming}
order by {available}
limit 1
