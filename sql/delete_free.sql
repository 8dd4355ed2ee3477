-- Deletes those of the acknowledged rows that nobody else keeps locked (OUTBOX_SETTLE=delete).
-- $1 the ids. Locks the rows, and waits for none. Leans on the primary key.
delete from {table}
where {id} = any (array(select {id} from {table} where {id} = any ($1::{id_type}[]) for update skip locked))
