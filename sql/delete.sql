-- Deletes acknowledged rows (OUTBOX_SETTLE=delete).
-- $1 the identities. Locks the rows. Leans on the primary key, or on the places in the identities.
delete from {table}
where {here}{identity} = any ($1::{identity_type}[])
