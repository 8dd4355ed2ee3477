-- Reads single rows again, if they are still pending.
-- $1 the number of rows, $2 the ids. No locks. Uses the primary key.
select null::pg_snapshot, null::bigint, null::bigint, null::bigint, null::bigint, true, {hash}, {version}, {columns}
from {table}
where {due} and {id} = any ($2::{id_type}[])
order by {ordering}
limit $1
