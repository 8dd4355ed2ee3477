-- Deletes those of the acknowledged rows that nobody else keeps locked (OUTBOX_SETTLE=delete).
-- $1 the identities. Locks the rows, and waits for none. Leans on the primary key, or on the places in the identities.
delete from {table}
where {here}{identity} = any (array(
  select {identity} from {table} where {here}{identity} = any ($1::{identity_type}[])
  for update skip locked))
