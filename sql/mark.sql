-- Marks acknowledged rows. Writes relayed_at and nothing else, and no row twice.
-- $1 the ids. Locks the rows. Leans on the primary key.
update {table}
set {relayed_at} = {relayed_now}
where {id} = any ($1::{id_type}[]) and {unmarked}
