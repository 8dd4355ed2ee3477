-- Returns in how many microseconds the next pending row of any shard or destination becomes due; no row, or null, if none is
-- scheduled.
-- No locks. Uses the index of due times, of which it reads one entry.
(select case when isfinite({available}) then greatest(least(extract(epoch from {available} - {available_now}) * 1000000, 3e15)::bigint, 1) end
from {table}
where {upcoming}
order by {available}
limit 1)
