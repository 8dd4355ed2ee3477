-- Reads the pending rows without an order value, which come before all others, after an id.
-- $1 the number of rows, $2 the id or null, last the shards unless all are owned. No locks. Uses the index of pending rows in
-- table order, if it holds nulls.
select {columns}
from {table}
where {due}{owned} and {order} is null and ($2::{id_type} is null or {id} > $2)
order by {id}
limit $1
