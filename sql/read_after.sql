-- Reads the pending rows behind a position, which is not itself included.
-- $1 how many, $2 and following the position, at last the shards unless all are owned. No locks. Leans on the index of pending rows in table order.
select {columns}
from {table}
where {due}{owned} and ({position}) > ({position_parameters})
order by {ordering}
limit $1
