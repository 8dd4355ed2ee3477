-- Returns how many values each session reserves at a time from the sequence of a column; no row if the column has no sequence.
-- $1 oid of the table, $2 the column. Reads the catalogue only.
select s.seqcache
from pg_catalog.pg_attribute a
join pg_catalog.pg_depend d on d.refclassid = 'pg_catalog.pg_class'::regclass and d.refobjid = a.attrelid and d.refobjsubid = a.attnum
join pg_catalog.pg_sequence s on d.classid = 'pg_catalog.pg_class'::regclass and s.seqrelid = d.objid
where a.attrelid = $1::bigint::oid and a.attname = $2
