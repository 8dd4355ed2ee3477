-- Tells how far a walk over several pages can see: the last order value of the pending rows that are due, null when there is none.
-- No locks. Leans on the index of pending rows in table order, read backwards.
select {order} from {table} where {due}{not_null} order by {ordering_back} limit 1
