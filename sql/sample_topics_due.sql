-- Returns the distinct topics as sample_topics.sql does, where pending rows with available_at have an index of their own. It
-- looks at the first and the last rows in table order, and at the rows with available_at that have been due longest or will be
-- due last.
-- $1 the number of rows from each end. No locks. Sent only where both indexes exist, of which it reads the ends.
select {grouped} from (
  (select {sampled} from {table} where {due} order by {ordering} limit $1)
  union all
  (select {sampled} from {table} where {due} order by {ordering_back} limit $1)
  union all
  (select {sampled} from {table} where {delayed} order by {available} limit $1)
  union all
  (select {sampled} from {table} where {delayed} order by {available} desc limit $1)) ends
group by {groups}
limit 1000
