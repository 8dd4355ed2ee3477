-- Reads the first pending rows of the table.
-- $1 the number of rows, $2 and $3 as in read_recent.sql, last the shards unless all are owned. No locks. Uses the index of
-- pending rows in table order.
select {columns}
from {table}
where {due}{owned}{not_null} and {since}
order by {ordering}
limit $1
