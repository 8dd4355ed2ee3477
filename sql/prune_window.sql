-- Finds the position that a number of rows reaches along an index, from a position on; no row if fewer rows are left.
-- $1 the number of rows, $2 the cutoff, $3 the position or null. No locks. Uses an index that begins with the column; not sent
-- without one.
select {column}::text as column_text
from {table}
where {within}
order by {column}
offset $1 limit 1
