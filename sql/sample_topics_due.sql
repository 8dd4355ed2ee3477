-- Returns the different topics as sample_topics.sql does, where pending rows with available_at have an index of their own: of the first and the last
-- rows in table order, and of the others of those that have been due longest or will be last.
-- $1 rows from each end. No locks. Sent only where both indexes exist, of which it reads the ends.
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
