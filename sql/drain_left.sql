-- Counts the pending rows that are due up to an order value, up to a cap.
-- $1 the cap, $2 the order value. No locks. Uses the index of pending rows in table order.
select count(*) from (
  select 1 from {table} where {due} and ({order} is null or {order} <= $2) limit $1) pending
