-- Returns the last order value of the pending rows that have no available_at, and the time now, up to which the others are due.
-- No locks. Leans on the index of pending rows in table order, of those without available_at, read backwards.
select (select {order} from {table} where {due} order by {ordering_back}{nulls_last} limit 1), {available_now}
