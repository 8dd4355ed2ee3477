-- Marks or deletes acknowledged rows in the places where they were read. Rows that have moved since are left out. $1 the ids, $2 the
-- versions that were read, $3 the places; a place alone may hold another row by now. Locks the rows. Uses no index.
{write}
where {partitions}ctid = any ($3::tid[]) and {id} = any ($1::{id_type}[]) and {unmarked}{as_read}
