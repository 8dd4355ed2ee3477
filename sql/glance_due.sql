-- Finds any pending row that is due, by either index, and in how many microseconds the next one becomes due, null when none is scheduled.
-- At last the shards unless all are owned. No locks. Leans on the index of pending rows in table order, of those without available_at, and on
-- that of due times.
select exists (select from {table} where {due}{owned} order by {ordering} limit 1)
    or exists (select from {table} where {arrived}{owned} order by {available} limit 1),
  (select case when isfinite(next) then greatest((extract(epoch from next - {available_now}) * 1000000)::bigint, 1) end
   from (select {available} as next from {table} where {upcoming} order by {available} limit 1) scheduled)
