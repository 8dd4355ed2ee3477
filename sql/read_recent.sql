-- Reads the pending rows from a low-water bound on, which is included: behind it the index's dead entries cost nothing.
-- $1 how many, $2 the bound, at last the shards unless all are owned. No locks. Leans on the index of pending rows in table order.
select {columns}
from {table}
where {due}{owned} and {order} >= {bound}
order by {ordering}
limit $1
