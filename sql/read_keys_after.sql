-- Reads the pending rows of some keys after a position.
-- $1 the number of rows, $2 the keys, $3 and following the position. No locks. Uses an index of pending rows by key, otherwise
-- that of pending rows in table order.
select {columns}
from {table}
where {due} and {key} = any ($2::text[]) and ({position}) > ({position_parameters})
order by {ordering}
limit $1
