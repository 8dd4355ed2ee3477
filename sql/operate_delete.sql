-- Deletes chosen rows that have not changed since they were chosen, that no other destination needs any more, and that no
-- other session keeps locked.
-- $1 the identities, $2 the time of the choice. Locks the rows, and waits for none. Uses the primary key.
delete from {table}
where {row_here}{row} = any (array(
  select {row} from {table}
  where {row_here}{row} = any ($1::text[]::{row_type}[]) and {still} and {done}
  for update skip locked))
returning coalesce({id}::text, '')
