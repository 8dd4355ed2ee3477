-- Counts the partitions of a table, and finds the column by whose ranges it is partitioned and the column's type, if it is one column
-- with times, with the constants at which its partitions begin or end.
-- $1 oid of the table. Reads the catalogue only.
select count(distinct p.oid)::integer, coalesce(max(a.attname::text), ''), coalesce(max(format_type(a.atttypid, null)), ''),
       coalesce(array_agg(bound) filter (where bound is not null), array[]::text[])
from (
  select i.inhparent, c.oid, pg_get_expr(c.relpartbound, c.oid) as expression
  from pg_catalog.pg_inherits i
  join pg_catalog.pg_class c on c.oid = i.inhrelid
  where i.inhparent = $1::oid and not i.inhdetachpending) p
left join pg_catalog.pg_partitioned_table t on t.partrelid = p.inhparent and t.partstrat = 'r' and t.partnatts = 1
left join pg_catalog.pg_attribute a on a.attrelid = t.partrelid and a.attnum = t.partattrs[0]
  and a.atttypid in ('date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype)
cross join lateral unnest(array[
  substring(expression from $re$FROM \('([^']*)'\)$re$), substring(expression from $re$TO \('([^']*)'\)$re$)]) bound
