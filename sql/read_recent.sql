-- Reads the pending rows from a low watermark on, inclusively. It does not pass the index's dead entries before the watermark.
-- $1 the number of rows, $2 leaves out what transactions before this one have written, unless null, $3 a snapshot, or null: no
-- row is looked at if no transaction has ended since, $4 the watermark, last the shards unless all are owned. No locks. Uses the
-- index of pending rows in table order.
select {columns}
from {table}
where {due}{owned} and {order} >= {bound} and {since}
order by {ordering}
limit $1
