-- Counts the pending rows that are due up to an order value, or that were due at a time, up to a cap.
-- $1 the cap, $2 the order value, $3 the time. No locks. Uses the index of pending rows in table order, and that of due times.
select least(count(*), $1::bigint) from (
  (select 1 from {table} where {due} and ({order} is null or {order} <= $2) limit $1)
  union all
  (select 1 from {table} where {arrived} and {available} <= $3 order by {available} limit $1)) pending
