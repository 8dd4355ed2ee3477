-- Changes the state of chosen rows that have not changed since they were chosen and that no other session keeps locked.
-- $1 the identities, $2 the time of the choice, $3 and following what is assigned. Locks the rows, and waits for none. Uses the
-- primary key.
update {table}
set {assignments}
where {row_here}{row} = any (array(
  select {row} from {table}
  where {row_here}{row} = any ($1::text[]::{row_type}[]) and {still}
  for no key update skip locked))
returning coalesce({id}::text, '')
