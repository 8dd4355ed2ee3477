-- Returns the end of a scan over several pages: the last order value of the pending rows that are due, null if none is due.
-- No locks. Uses the index of pending rows in table order, read backwards.
select {order} from {table} where {due}{not_null} order by {ordering_back} limit 1
