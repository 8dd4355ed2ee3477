-- Reads the pending rows from a low-water bound on, which is included: behind it the index's dead entries cost nothing.
-- $1 how many, $2 the bound, $3 leaves out what transactions before this one have written, unless null, at last the
-- shards unless all are owned. No locks. Leans on the index of pending rows in table order.
select {columns}
from {table}
where {due}{owned} and {order} >= {bound} and ($3::xid is null or age({writer}) <= age($3))
order by {ordering}
limit $1
