-- Marks acknowledged rows where they were read, as mark.sql does. Those that were moved since are left out.
-- $1 the ids, $2 the places; a place alone may hold another row by now. Locks the rows. Leans on no index.
update {table}
set {marks}
where ctid = any ($2::tid[]) and {id} = any ($1::{id_type}[]) and {unmarked}
