-- Deletes failed rows that no other destination needs any more and that no other session keeps locked.
-- $1 the identities, $2 the time until which they had failed. Locks the rows, and waits for none. Uses the primary key, or the
-- places in the identities.
delete from {table}
where {here}{identity} = any (array(
  select {identity} from {table}
  where {here}{identity} = any ($1::text[]::{identity_type}[]) and {still} and {done}
  for update skip locked))
returning coalesce({id}::text, '')
