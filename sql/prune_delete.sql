-- Deletes rows that may be deleted, of those within a window that no other session keeps locked.
-- $1 how many at most, $2 the cutoff, $3 the position behind which the window begins or null, $4 where it ends or null, then the parameters of
-- the selection. Locks the rows, and waits for none. Leans on an index that begins with the column, and on the primary key or the places
-- in the identities.
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
