-- Marks or deletes acknowledged rows. A mark writes relayed_at and nothing else, and no row twice. $1 the identities, $2 their versions
-- that were read, if rows show them. Locks the rows. Uses the primary key.
{write}
where {here}{identity} = any ($1::{identity_type}[]) and {unmarked} and {as_read.sql}
