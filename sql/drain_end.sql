-- Returns the last order value of the pending rows that are due, of those without available_at where there is an index of due
-- times, null if there is none; and the present time, up to which the other rows are due.
-- No locks. Uses the index of pending rows in table order, read backwards.
select (select {order} from {table} where {due} order by {latest}{nulls_last} limit 1), {available_now}
