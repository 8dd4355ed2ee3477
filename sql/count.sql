-- Counts rows in some state by topic and by the destination that takes them, looking at the first rows only.
-- The parameters are those of the expression for the destination. No locks. Sent only where an index of the rows in that state
-- exists; the order makes the planner use it whatever the statistics say.
select topic, taker, count(*) filter (where {is_due}), count(*) filter (where {is_due} and retried),
  count(*) filter (where {is_scheduled}), count(*) filter (where {is_failed}),
  extract(epoch from max(now() - due_at) filter (where {is_due} and isfinite(due_at)))::float8
from (select {topic}::text as topic, {taker} as taker, {last_error} is not null as retried, {due_at} as due_at from {table} where {state} {ordering} limit {limit}) looked
group by topic, taker
