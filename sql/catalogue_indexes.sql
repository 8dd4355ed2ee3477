-- Reads the valid b-tree indexes of a table: key columns in order ('=' and the text of an expression), predicate, and whether it is unique.
-- $1 oid of the table. Reads the catalogue only.
select array(
         select coalesce(a.attname::text, '=' || pg_get_indexdef(i.indexrelid, k.n::integer, false))
         from unnest(i.indkey[0:i.indnkeyatts - 1]) with ordinality k (attnum, n)
         left join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum and k.attnum > 0
         order by k.n),
       coalesce(pg_get_expr(i.indpred, i.indrelid), ''), i.indisunique
from pg_catalog.pg_index i
join pg_catalog.pg_class c on c.oid = i.indexrelid
join pg_catalog.pg_am m on m.oid = c.relam
where i.indrelid = $1::oid and i.indisvalid and i.indisready and m.amname = 'btree'
