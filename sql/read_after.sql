-- Reads the pending rows after a position.
-- $1 the number of rows, $2 and following the position, last the shards unless all are owned. No locks. Uses the index of
-- pending rows in table order.
select {columns}
from {table}
where {due}{owned} and ({position}) > ({position_parameters})
order by {ordering}
limit $1
