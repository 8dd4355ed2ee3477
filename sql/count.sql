-- Counts rows by state, by topic and by the destination that takes them, and of each destination the whole, looking at the first rows
-- only.
-- The parameters are those of the expression for the destination. No locks. Sent only where an index of the rows in that state
-- exists; the order makes the planner use it whatever the statistics say.
select taker, whole = 1, json_build_object('topic', topic, 'due', due, 'retrying', retrying, 'scheduled', scheduled,
  'failed', failed, 'oldest_age_seconds', extract(epoch from age))
from (
  select taker, topic, grouping(topic) as whole, count(*) filter (where state = 'due') as due,
    count(*) filter (where state = 'due' and retried) as retrying, count(*) filter (where state = 'scheduled') as scheduled,
    count(*) filter (where state = 'failed') as failed,
    max(greatest(now() - due_at, interval '0')) filter (where state = 'due' and isfinite(due_at)) as age
  from (
{looks}
  ) looked
  group by grouping sets ((taker, topic), taker)) counted
order by failed desc, due desc, scheduled desc, topic
