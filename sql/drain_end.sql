-- Returns the last order value of the pending rows that are due; no row if none is due.
-- No locks. Uses the index of pending rows in table order, read backwards.
select {order}
from {table}
where {due}
order by {latest}{nulls_last}
limit 1
