-- Returns the last order value of the pending rows without available_at, and the present time, up to which the other rows are
-- due.
-- No locks. Uses the index of pending rows in table order, of rows without available_at, read backwards.
select (select {order} from {table} where {due} order by {latest}{nulls_last} limit 1), {available_now}
