-- Counts failed rows up to a cap.
-- $1 the cap. No locks. Sent only where an index of failed rows exists.
select count(*) from (select 1 from {table} where {failed} limit $1) failed
