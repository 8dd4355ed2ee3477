-- Finds a failed row of a key.
-- $1 the key. No locks. Uses an index of failed rows; its time is limited.
select {id}::text as id_text
from {table}
where {state} and {key} = $1::text
limit 1
