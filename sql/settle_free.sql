-- Marks or deletes the acknowledged rows that no other session keeps locked. It costs more than settle.sql, since it locks first.
-- $1 the identities, $2 their versions that were read, if rows show them. Locks the rows, and waits for none. Uses the primary key.
{write}
where {unmarked} and {here}{identity} = any (array(
  select {identity} from {table} where {here}{identity} = any ($1::{identity_type}[]) and {unmarked} and {as_read.sql}
  for {lock} skip locked))
