-- Marks those of the acknowledged rows that nobody else keeps locked. Dearer than mark.sql, since it locks first.
-- $1 the identities. Locks the rows, and waits for none. Leans on the primary key, or on the places in the identities.
update {table}
set {marks}
where {unmarked} and {here}{identity} = any (array(
  select {identity} from {table} where {here}{identity} = any ($1::{identity_type}[]) and {unmarked}
  for no key update skip locked))
