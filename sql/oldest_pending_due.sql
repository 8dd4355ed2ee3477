-- Returns for how many microseconds the first pending row has been due: the first in table order of the rows without
-- available_at, or the first by available_at of the others. It returns no row if none of the rows that it looks at is due.
-- No locks. Sent only where both indexes exist, of which it reads the beginnings.
select max(age) from (
  (select case when isfinite(due_at) then (extract(epoch from {inserted_now} - due_at) * 1000000)::bigint end as age
   from (select {due_at} as due_at, {taken} as taken from {table} where {due} order by {ordering} limit {looked}) undelayed
   where taken limit 1)
  union all
  (select case when isfinite(due_at) then (extract(epoch from {inserted_now} - due_at) * 1000000)::bigint end
   from (select {due_at} as due_at, {taken} as taken from {table} where {arrived} order by {available} limit {looked}) delayed
   where taken limit 1)) oldest
having count(*) > 0
