-- Returns the different topics, with the columns that templates name, of the first and the last pending rows.
-- $1 rows from each end. No locks. Sent only where an index of pending rows exists, of which it reads the ends.
select distinct * from (
  (select {sampled} from {table} where {pending} order by {ordering} limit $1)
  union all
  (select {sampled} from {table} where {pending} order by {ordering_back} limit $1)) ends
limit 1000
