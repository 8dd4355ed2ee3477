-- Finds the partitions that reads and writes have to look at: those of the present time, and those that hold pending rows.
-- $1 and $2 the bounds of each partition, empty for none. Returns their numbers, and whether each holds pending rows. No locks. Uses
-- the index of pending rows of each partition.
select n, pending
from unnest($1::text[], $2::text[]) with ordinality p (low_text, high_text, n)
cross join lateral (select coalesce(nullif(low_text, ''), '-infinity')::{part_type} as low, coalesce(nullif(high_text, ''), 'infinity')::{part_type} as high) bounds
cross join lateral (select exists (
  select from {table} where {pending} and {part_key} >= low and {part_key} < high) as pending) rows
where pending or low < now() at time zone 'UTC' + interval '2 hours' and high > now() at time zone 'UTC' - interval '2 hours'
order by n
