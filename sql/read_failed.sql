-- Reads the keys of failed rows in the order in which they failed, behind a position.
-- $1 how many, $2 and $3 the time and id of that position or null, at last the shards unless all are owned.
-- No locks. Leans on the index of failed rows; not sent where there is none.
select {failed_at}, {id}, {order}, {topic}::text, {key}
from {table}
where {failed} and {key} is not null{owned}
  and ($2::{failed_type} is null or ({failed_at}, {id}) > ($2, $3::{id_type}))
order by {failed_at}, {id}
limit $1
