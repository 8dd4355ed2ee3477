-- Writes refused attempts, many rows at once, where a row has not changed since it was read.
-- $1 the identities, $2 their attempts as read, $3 the next attempts, $4 the errors, $5 whether the row has failed for good,
-- $6 the versions that were read or 0.
-- Locks the rows, and waits for none. Uses the primary key. Returns the identities of the rows
-- that were written with 1, of those that another session keeps locked with 2, and of those that are as they were read and that the
-- write has left so with 3. The planner does not see how many identities there are: with 2,000 of them it would read a table of
-- 200,000 rows from end to end.
with r (refused_row, attempt, next_attempt, error, failed, version) as materialized (
  select * from unnest($1::{identity_type}[], $2::bigint[], $3::bigint[], $4::text[], $5::boolean[], $6::xid[])
), free (row) as materialized (
  select r.refused_row from {table} as t, r
  where {t_here}{t_identity} = r.refused_row and {t_identity} = any (array(select unnest($1::{identity_type}[]))) and {unchanged}
  for no key update of t skip locked
), written as (
  update {table} as t
  set {refusal}
  from r
  where {t_here}{t_identity} = r.refused_row and {t_identity} = any (array(select row from free))
  returning r.refused_row
)
select refused_row, 1 from written
union all
select row, 3 from free where row not in (select refused_row from written)
union all
select r.refused_row, 2 from {table} as t, r
where {t_here}{t_identity} = r.refused_row and {t_identity} = any (array(select unnest($1::{identity_type}[]) except select row from free))
  and {unchanged}
