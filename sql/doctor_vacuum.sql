-- Returns what the statistics say of a table's dead rows, and whether autovacuum is switched off for it.
-- $1 oid of the table. Reads statistics only; a partitioned table has none.
select coalesce(s.n_live_tup, 0)::text, coalesce(s.n_dead_tup, 0)::text,
       coalesce(c.reloptions && array['autovacuum_enabled=false', 'autovacuum_enabled=off'], false)::text
from pg_catalog.pg_class c
left join pg_catalog.pg_stat_all_tables s on s.relid = c.oid
where c.oid = $1::oid
