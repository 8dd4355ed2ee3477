-- Returns for how many seconds the last pending row has been inserted, by its own time, which has no zone and is taken
-- for UTC, if that looks like a zone's difference: whole half hours up to 14, for a row that one of the last
-- transactions has written.
-- No locks. Sent only where an index of pending rows exists, which it reads backwards.
select (round(age / 1800) * 1800)::bigint
from (
  select extract(epoch from (now() at time zone 'UTC') - {inserted_at}) as age, age({writer}) as written
  from {table}
  where {pending} and isfinite({inserted_at})
  order by {ordering_back}
  limit 1) last
where written <= 1000 and age between 1770 and 50430 and abs(age - round(age / 1800) * 1800) <= 30
