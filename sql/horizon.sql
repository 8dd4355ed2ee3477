-- Tells what a walk over several pages can see: the last order value of the pending rows that are due, null when there is
-- none, and which transactions have ended.
-- No locks. Leans on the index of pending rows in table order, read backwards.
select (select {order} from {table} where {due} order by {ordering_back} limit 1),
       pg_current_snapshot()::text
