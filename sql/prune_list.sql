-- Lists rows within a window that may be deleted.
-- $1 to $4 and following as in prune_delete.sql. No locks. Uses an index that begins with the column.
select {id}::text as id_text
from {table}
where {within} and {ready}
order by {column}
limit $1
