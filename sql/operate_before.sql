-- Finds a row of a key in a state: the first of those before a row, or of all.
-- $1 the key, null for a row without one, $2 the id of the row. No locks. Uses an index of the rows in that state, by key if there is
-- one; its time is limited.
select {id}::text as id_text
from {table}
where {state} and {key} = $1::text
  and ({anywhere} or ({order}, {id}) < (select {order}, {id} from {table} where {id} = $2::text::{id_type} limit 1))
order by {ordering}
limit 1
