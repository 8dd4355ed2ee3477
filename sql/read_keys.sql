-- Reads the first pending rows of some keys, in table order.
-- $1 the number of rows, $2 the keys, $3 a position before which none of their rows lies, or null.
-- No locks. Uses an index of pending rows by key, otherwise the position.
select {columns}
from {table}
where {due} and {key} = any ($2::text[]) and {from_bound}
order by {ordering}
limit $1
