-- Counts the rows in some state that a destination takes, up to a cap. It looks at a bounded number of rows in that state, so
-- that it costs the same however many rows other destinations have. Null means that there are more rows, and that fewer than
-- the cap were found among those.
-- $1 the cap. No locks. Sent only where an index of the rows in that state exists.
select case when count(*) < {looked} or count(*) filter (where taken) >= $1::bigint then least(count(*) filter (where taken), $1::bigint) end
from (select {taken} as taken from {table} where {state} limit {looked}) looked
