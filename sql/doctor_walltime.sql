-- Returns how many seconds ago the last pending row was inserted, by its own time, which has no zone and is taken for UTC, and how
-- many transactions ago it was written.
-- No locks. Sent only where an index of pending rows exists, which it reads backwards.
select extract(epoch from (now() at time zone 'UTC') - {inserted_at})::float8, age({writer})
from {table}
where {pending} and isfinite({inserted_at})
order by {ordering_back}
limit 1
