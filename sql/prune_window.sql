-- Finds how far some rows reach along an index, from a position on; no row when there are fewer to the end.
-- $1 how many, $2 the cutoff, $3 the position or null. No locks. Leans on an index that begins with the column; not sent without one.
select {column}::text as column_text
from {table}
where {within}
order by {column}
offset $1 limit 1
