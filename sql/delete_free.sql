-- Deletes the acknowledged rows that no other session keeps locked (OUTBOX_SETTLE=delete). $1 the identities, $2 the
-- versions that were read, if rows show them. Locks the rows, and waits for none. Uses the primary key, or the places
-- in the identities.
delete from {table}
where {here}{identity} = any (array(
  select {identity} from {table} where {here}{identity} = any ($1::{identity_type}[]){as_read}
  for update skip locked))
