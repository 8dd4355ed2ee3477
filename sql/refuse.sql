-- Writes refused tries, many rows at once, where a row still is as it was read.
-- $1 the ids, $2 their attempts as read, $3 the next attempts, $4 the errors, $5 whether the row has failed for good.
-- Locks the rows, and waits for none. Leans on the primary key. Returns the ids that were written with true, and with
-- false those that somebody else keeps locked.
with free as materialized (
  select {id} from {table} where {id} = any ($1::{id_type}[]) for no key update skip locked
), written as (
  update {table} as t
  set {refusal}
  from unnest($1::{id_type}[], $2::bigint[], $3::bigint[], $4::text[], $5::boolean[])
       as r (id, attempt, next_attempt, error, failed)
  where t.{id} = r.id and t.{id} = any (array(select {id} from free)) and {unchanged}
  returning t.{id}
)
select {id}, true from written
union all
select {id}, false from {table}
where {id} = any ($1::{id_type}[]) and {id} <> all (array(select {id} from free))
