-- Reads the pending rows of some keys in table order, so that of each key it returns the first ones.
-- $1 how many, $2 the keys, $3 a bound that none of their rows is before, or null.
-- No locks. Leans on an index of pending rows by key, else on the bound.
select {columns}
from {table}
where {due} and {key} = any ($2::text[]) and {from_bound}
order by {ordering}
limit $1
