-- Returns the distinct topics of the first and the last pending rows, with the time of the newest row of each
-- topic and the columns that templates name.
-- $1 the number of rows from each end. No locks. Sent only where an index of pending rows exists, of which it reads the ends.
select {grouped} from (
  (select {sampled} from {table} where {pending} order by {ordering} limit $1)
  union all
  (select {sampled} from {table} where {pending} order by {ordering_back} limit $1)) ends
group by {groups}
limit 1000
