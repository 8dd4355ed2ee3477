-- Marks or deletes acknowledged rows in the places where they were read. Rows that have moved since are left out. $1 the
-- identities, $2 their versions that were read, $3 the places: a place alone may hold another row by now, or one in each partition.
-- Locks the rows. Uses no index.
{write}
where {partitions}ctid = any ($3::tid[]) and {unmarked} and {as_read.sql}
