-- Reads the pending rows from a low watermark on, inclusively. It does not pass the index's dead entries before the watermark.
-- $1 the number of rows, $2 the watermark, $3 leaves out what transactions before this one have written, unless null, last the
-- shards unless all are owned. No locks. Uses the index of pending rows in table order.
select {columns}
from {table}
where {due}{owned} and {order} >= {bound} and ($3::xid is null or age({writer}) <= age($3))
order by {ordering}
limit $1
