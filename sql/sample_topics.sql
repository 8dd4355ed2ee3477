-- Returns the distinct topics of the first and the last pending rows, with the time of the newest row of each
-- topic and the columns that templates name. Where rows with available_at have an index of their own, it looks at those
-- that have been due longest or will be due last, too.
-- $1 the number of rows from each end. No locks. Sent only where an index of pending rows exists, of which it reads the ends.
select {grouped} from (
  (select {sampled} from {table} where {untimed} order by {ordering} limit $1)
  union all
  (select {sampled} from {table} where {untimed} order by {ordering_back} limit $1)
  union all
  (select {sampled} from {table} where {timed} order by {available} limit $1)
  union all
  (select {sampled} from {table} where {timed} order by {available} desc limit $1)) ends
group by {groups}
limit 1000
