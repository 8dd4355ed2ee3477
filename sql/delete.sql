-- Deletes acknowledged rows (OUTBOX_SETTLE=delete).
-- $1 the ids. Locks the rows. Leans on the primary key.
delete from {table}
where {id} = any ($1::{id_type}[])
