-- Lists the refused rows that have not changed since they were read. $1 the identities, $2 their attempts as read, $3
-- their versions as read or 0. Uses the primary key, or the places in the identities.
select r.refused_row
from {table} as t, unnest($1::{identity_type}[], $2::bigint[], $3::xid[]) as r (refused_row, attempt, version)
where {t_here}{t_identity} = any ($1::{identity_type}[]) and {t_identity} = r.refused_row and {unchanged}
