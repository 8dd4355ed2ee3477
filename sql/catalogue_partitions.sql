-- Lists the partitions of a table: the column by whose ranges it is partitioned and the column's type, if it is one column with times,
-- and each partition's bounds as constants, empty for one without a bound, in order. The default partition has none and comes last.
-- $1 oid of the table. Reads the catalogue only.
select coalesce(a.attname::text, ''), coalesce(format_type(a.atttypid, null), ''), coalesce(low, ''), coalesce(high, ''), expression = 'DEFAULT'
from (
  select i.inhparent, pg_get_expr(c.relpartbound, c.oid) as expression
  from pg_catalog.pg_inherits i
  join pg_catalog.pg_class c on c.oid = i.inhrelid
  where i.inhparent = $1::oid and not i.inhdetachpending) p
left join pg_catalog.pg_partitioned_table t on t.partrelid = p.inhparent and t.partstrat = 'r' and t.partnatts = 1
left join pg_catalog.pg_attribute a on a.attrelid = t.partrelid and a.attnum = t.partattrs[0]
  and a.atttypid in ('date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype)
cross join lateral (
  select substring(expression from $re$FROM \('([^']*)'\)$re$) as low, substring(expression from $re$TO \('([^']*)'\)$re$) as high) bounds
order by expression = 'DEFAULT', case when a.attname is not null then low::timestamptz end nulls first
