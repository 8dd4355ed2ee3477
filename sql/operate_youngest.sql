-- Returns for how many more seconds the youngest of some rows counts as young.
-- $1 the identities, $2 for how many seconds rows are young. No locks. Uses the primary key, or the places in the identities.
select extract(epoch from max({inserted_at}) + make_interval(secs => $2::float8) - now())::float8
from {table}
where {here}{identity} = any ($1::text[]::{identity_type}[])
