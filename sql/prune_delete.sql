-- Deletes rows within a window that may be deleted and that no other session keeps locked.
-- $1 the largest number of rows, $2 the cutoff, $3 the position after which the window begins or null, $4 the position where it
-- ends or null, then the parameters of the selection. Locks the rows, and waits for none. Uses an index that begins with the
-- column, and the primary key or the places in the identities.
with chosen as materialized (
  select {identity} as identity
  from {table}
  where {within} and {ready}
  order by {column}
  limit $1
  for update skip locked
)
delete from {table}
where {here}{identity} = any (array(select identity from chosen))
returning coalesce({id}::text, '')
