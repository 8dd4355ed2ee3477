-- Counts by topic, and by the destination that takes them, the first rows that are in some state.
-- $1 how many rows are looked at. No locks. Leans on an index of the rows in that state, in the given order.
select topic, taker, count(*), count(*) filter (where retried), extract(epoch from max(age))::float8
from (
  select {topic}::text as topic, {taker} as taker, {retried} as retried, {age} as age
  from {table}
  where {state}
  order by {ordering}
  limit $1) looked
group by topic, taker
