-- Tells for how many seconds the youngest of some rows still counts as young.
-- $1 the identities, $2 for how many seconds rows are young. No locks. Leans on the primary key, or on the places in the identities.
select extract(epoch from max({inserted_at}) + make_interval(secs => $2::float8) - now())::float8
from {table}
where {here}{identity} = any ($1::text[]::{identity_type}[])
