-- Tells how many bytes the table takes with its indexes and what is stored out of line, and how many dead rows the server's statistics
-- know of, all its partitions together.
-- $1 the table's oid. Takes the weakest lock on each relation while it looks at the sizes of its files.
with recursive parts (part) as (
  select $1::bigint::oid
  union
  select i.inhrelid from parts join pg_catalog.pg_inherits i on i.inhparent = parts.part)
select coalesce(sum(pg_catalog.pg_total_relation_size(part)), 0)::bigint,
  coalesce(sum(pg_catalog.pg_stat_get_dead_tuples(part)), 0)::bigint
from parts
