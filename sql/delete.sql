-- Deletes acknowledged rows (OUTBOX_SETTLE=delete). $1 the identities, $2 the versions that were read, if rows show
-- them. Locks the rows. Uses the primary key, or the places in the identities.
delete from {table}
where {here}{identity} = any ($1::{identity_type}[]){as_read}
