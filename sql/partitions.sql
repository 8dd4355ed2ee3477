-- Lists the partitions that end before the cutoff, oldest first, with the times that they hold, of a table that is partitioned
-- by ranges of its time of insert; none if this role may not execute the function that drops partitions.
-- $1 the table, $2 the cutoff, $3 the function with its arguments. Reads the catalogue only.
select part::regclass::text, low, high
from (
  select c.oid as part,
         substring(pg_get_expr(c.relpartbound, c.oid) from $re$FROM \('([^']*)'\)$re$)::timestamptz as low,
         substring(pg_get_expr(c.relpartbound, c.oid) from $re$TO \('([^']*)'\)$re$)::timestamptz as high
  from pg_catalog.pg_inherits i
  join pg_catalog.pg_class c on c.oid = i.inhrelid
  where i.inhparent = $1::text::regclass and c.relkind = 'r') parts
where low is not null and high <= $2 and has_function_privilege(to_regprocedure($3), 'execute')
order by high
