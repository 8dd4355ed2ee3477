-- Finds any pending row that is due, by either index, and returns in how many microseconds the next row becomes due; null if
-- none is scheduled.
-- Last parameter: the shards, unless all are owned. No locks. Uses the index of pending rows in table order, of rows without
-- available_at, and the index of due times.
select exists (select from {table} where {due}{owned} order by {ordering} limit 1)
    or exists (select from {table} where {arrived}{owned} order by {available} limit 1),
  (select case when isfinite(next) then greatest((extract(epoch from next - {available_now}) * 1000000)::bigint, 1) end
   from (select {available} as next from {table} where {upcoming} order by {available} limit 1) scheduled)
