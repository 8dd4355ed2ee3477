-- Counts pending rows that are due up to a cap, where those with available_at have an index of their own. Of either kind it looks at a bounded number,
-- so that it costs the same however many rows other destinations have: null says that there are more, and that fewer than the cap were found.
-- $1 the cap. No locks. Sent only where both indexes exist, to which the order leads whatever statistics say.
select case when not more or taken >= $1::bigint then least(taken, $1::bigint) end
from (
  select count(*) filter (where taken) as taken, count(*) filter (where kind) >= {looked} or count(*) filter (where not kind) >= {looked} as more
  from (
    (select true as kind, {taken} as taken from {table} where {due} order by {ordering} limit {looked})
    union all
    (select false, {taken} from {table} where {arrived} order by {available} limit {looked})) looked) counted
