-- Counts pending rows that are not due yet up to a cap, where rows with available_at have an index of their own. It looks at a
-- bounded number of rows: null means that there are more, and that fewer than the cap were found.
-- $1 the cap. No locks. Sent only where both indexes exist; the order makes the planner use them whatever the statistics say.
select case when count(*) < {looked} or count(*) filter (where taken) >= $1::bigint then least(count(*) filter (where taken), $1::bigint) end
from (select {taken} as taken from {table} where {scheduled} order by {available} limit {looked}) looked
