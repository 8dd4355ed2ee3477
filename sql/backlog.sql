-- Counts rows in some state by topic and by the destination that takes them, looking at the first rows only.
-- $1 the number of rows to look at. No locks. Uses an index of the rows in that state, in the given order.
select topic, taker, count(*), count(*) filter (where retried), extract(epoch from max(age))::float8
from (
  select {topic}::text as topic, {taker} as taker, {retried} as retried, {age} as age
  from {table}
  where {state}
  order by {ordering}
  limit $1) looked
group by topic, taker
