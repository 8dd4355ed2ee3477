-- Reads the first pending rows of the table.
-- $1 how many, at last the shards unless all are owned. No locks. Leans on the index of pending rows in table order.
select {columns}
from {table}
where {due}{owned}{not_null}
order by {ordering}
limit $1
