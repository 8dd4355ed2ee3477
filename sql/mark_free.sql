-- Marks those of the acknowledged rows that nobody else keeps locked. Dearer than mark.sql, since it locks first.
-- $1 the ids. Locks the rows, and waits for none. Leans on the primary key.
update {table}
set {relayed_at} = {relayed_now}
where {unmarked} and {id} = any (array(
  select {id} from {table} where {id} = any ($1::{id_type}[]) and {unmarked}
  for no key update skip locked))
