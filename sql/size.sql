-- Returns how many bytes the table takes with its indexes and values that are stored out of line, and the number of dead and of
-- live rows in the server's statistics, all summed over all partitions; and the first of the table and its partitions for which
-- autovacuum is switched off, if there is one.
-- $1 the table's oid. Takes the weakest lock on each relation while it looks at the sizes of its files.
with recursive parts (part) as (
  select $1::bigint::oid
  union
  select i.inhrelid from parts join pg_catalog.pg_inherits i on i.inhparent = parts.part)
select coalesce(sum(pg_catalog.pg_total_relation_size(part)), 0)::bigint,
       coalesce(sum(pg_catalog.pg_stat_get_dead_tuples(part)), 0)::bigint,
       coalesce(sum(pg_catalog.pg_stat_get_live_tuples(part)), 0)::bigint,
       coalesce(min(part::regclass::text) filter (where reloptions && array['autovacuum_enabled=false', 'autovacuum_enabled=off']), '')
from parts
join pg_catalog.pg_class c on c.oid = part
