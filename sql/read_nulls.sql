-- Reads the pending rows without an order value, which come before all others, behind an id.
-- $1 how many, $2 the id or null, at last the shards unless all are owned. No locks. Leans on the index of pending rows in table order, if that holds nulls.
select {columns}
from {table}
where {due}{owned} and {order} is null and ($2::{id_type} is null or {id} > $2)
order by {id}
limit $1
