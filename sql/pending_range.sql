-- Finds the range of times that reads and writes have to look at: from the first to the last partition, or gap between partitions,
-- that holds pending rows or is of the present time.
-- $1 the times at which partitions begin or end, $2 and $3 another range. Returns the range, and whether rows are pending outside of the
-- other one. No locks. Uses the index of pending rows of each partition.
select min(low)::text, max(high)::text, coalesce(bool_or(pending and (low < $2::text::{part_type} or high > $3::text::{part_type})), false)
from (
  select bound as low, lead(bound) over (order by bound) as high
  from (select bound::{part_type} from unnest($1::text[] || array['-infinity', 'infinity']) bound group by 1) bounds) spans
cross join lateral (select {pending} as pending) rows
where high is not null
  and (pending or low < now() at time zone 'UTC' + interval '2 hours' and high > now() at time zone 'UTC' - interval '2 hours')
