-- Finds the first pending row of a key that lies before a row.
-- $1 the key, $2 the id of the row. No locks. Uses an index of pending rows, by key if there is one; its time is limited.
select {id}::text as id_text
from {table}
where {state} and {key} = $1::text
  and ({order}, {id}) < (select {order}, {id} from {table} where {id} = $2::text::{id_type} limit 1)
order by {ordering}
limit 1
