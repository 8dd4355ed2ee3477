-- Lists the partitions of a table that is partitioned by ranges of one column: the column, its type, and each partition's bounds as
-- constants, empty for one without a bound, in order. The default partition has none and comes last.
-- $1 oid of the table. Reads the catalogue only.
select a.attname::text, format_type(a.atttypid, null), coalesce(low, ''), coalesce(high, ''), (expression = 'DEFAULT')::text
from (
  select i.inhparent, pg_get_expr(c.relpartbound, c.oid) as expression
  from pg_catalog.pg_inherits i
  join pg_catalog.pg_class c on c.oid = i.inhrelid
  where i.inhparent = $1::oid and not i.inhdetachpending) p
join pg_catalog.pg_partitioned_table t on t.partrelid = p.inhparent and t.partstrat = 'r' and t.partnatts = 1
join pg_catalog.pg_attribute a on a.attrelid = t.partrelid and a.attnum = t.partattrs[0]
cross join lateral (
  select substring(expression from $re$FROM \('([^']*)'\)$re$) as low, substring(expression from $re$TO \('([^']*)'\)$re$) as high) bounds
where a.atttypid in ('date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype)
order by expression = 'DEFAULT', low::timestamptz nulls first
