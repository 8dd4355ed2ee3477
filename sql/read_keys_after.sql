-- Reads the pending rows of some keys after a position, and those without a key where the scan has to bring them.
-- $1 the number of rows, $2 the keys, $3 and following the position, last the shards unless all are owned or no row without a key
-- is wanted. No locks. Uses an index of pending rows by key if it reads only those, otherwise that of pending rows in table order.
select {columns}
from {table}
where {due}{owned} and ({key} = any ($2::text[]){or_null}) and ({position}) > ({position_parameters})
order by {ordering}
limit $1
