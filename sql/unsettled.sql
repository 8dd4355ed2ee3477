-- Lists those of the acknowledged rows that are not settled yet.
-- $1 the ids. Leans on the primary key.
select {id} from {table} where {id} = any ($1::{id_type}[]) and {unmarked}
