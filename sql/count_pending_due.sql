-- Counts pending rows that are due up to a cap, where rows with available_at have an index of their own. It looks at a bounded
-- number of rows of either kind, so that it costs the same however many rows other destinations have. Null means that there are
-- more rows, and that fewer than the cap were found.
-- $1 the cap. No locks. Sent only where both indexes exist; the order makes the planner use them whatever the statistics say.
select case when not more or taken >= $1::bigint then least(taken, $1::bigint) end
from (
  select count(*) filter (where taken) as taken, count(*) filter (where kind) >= {looked} or count(*) filter (where not kind) >= {looked} as more
  from (
    (select true as kind, {taken} as taken from {table} where {due} order by {ordering} limit {looked})
    union all
    (select false, {taken} from {table} where {arrived} order by {available} limit {looked})) looked) counted
