-- Reads the keys of failed rows after a position, in the order in which the rows failed.
-- $1 the number of rows, $2 and $3 the time and id of that position or null, $4 leaves out rows that failed so many microseconds
-- ago or earlier, unless null, last the shards unless all are owned.
-- No locks. Uses the index of failed rows; not sent where there is none.
select {failed_at}, {id}, {order}, {topic}::text, {key}
from {table}
where {failed} and {key} is not null{owned}
  and ($2::{failed_type} is null or ({failed_at}, {id}) > ($2, $3::{id_type}))
  and ($4::bigint is null or {failed_at} >= {failed_now} - $4 * interval '1 microsecond')
order by {failed_at}, {id}
limit $1
