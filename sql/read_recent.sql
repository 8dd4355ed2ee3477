-- Reads the pending rows from a low watermark on, inclusively. It does not pass the index's dead entries before the watermark.
-- $1 the number of rows, $2 the watermark, $3 leaves out what transactions before this one have written, unless null, $4 a
-- snapshot, or null: no row is looked at if no transaction has ended since, last the shards unless all are owned. No locks. Uses
-- the index of pending rows in table order.
select {columns}
from {table}
where {due}{owned} and {order} >= {bound} and ($3::xid is null or age({writer}) <= age($3))
  and ($4::text is null or pg_current_snapshot()::text <> $4)
order by {ordering}
limit $1
