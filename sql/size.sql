-- Returns how many bytes the table takes with its indexes and values that are stored out of line, and the number of dead rows
-- in the server's statistics, all summed over all partitions.
-- $1 the table's oid. Takes the weakest lock on each relation while it looks at the sizes of its files.
with recursive parts (part) as (
  select $1::bigint::oid
  union
  select i.inhrelid from parts join pg_catalog.pg_inherits i on i.inhparent = parts.part)
select coalesce(sum(pg_catalog.pg_total_relation_size(part)), 0)::bigint,
       coalesce(sum(pg_catalog.pg_stat_get_dead_tuples(part)), 0)::bigint
from parts
