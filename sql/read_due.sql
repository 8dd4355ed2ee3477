-- Reads the pending rows whose available_at has come, in the order of that time.
-- $1 the number of rows, $2 leaves out rows that became due so many microseconds ago or earlier, unless null, $3 and following
-- the position after which to go on, or nulls, last the shards unless all are owned. No locks. Uses the index of due times.
select {columns}
from {table}
where {arrived}{owned} and ($2::bigint is null or {available} >= {available_now} - $2 * interval '1 microsecond')
  and ($3::{available_type} is null or ({due_position}) > ({due_parameters}))
order by {due_position}
limit $1
