-- Reads the columns of a table, with the base type of a domain, the rights of this role and the comment.
-- $1 oid of the table. Reads the catalogue only.
select a.attname::text,
       b.oid,
       format_type(a.atttypid, a.atttypmod),
       case when b.typname in ('varchar', 'bpchar') and coalesce(nullif(t.typtypmod, -1), a.atttypmod) > 4
            then coalesce(nullif(t.typtypmod, -1), a.atttypmod) - 4 else 0 end,
       a.attnotnull or t.typnotnull,
       has_column_privilege(a.attrelid, a.attnum, 'select'),
       has_column_privilege(a.attrelid, a.attnum, 'update'),
       coalesce(btrim(pg_get_expr(d.adbin, d.adrelid)), ''),
       coalesce(col_description(a.attrelid, a.attnum), '')
from pg_catalog.pg_attribute a
join lateral (
  with recursive types as ( -- a domain's base type may be a domain
    select oid, typtype, typbasetype, typtypmod, typnotnull from pg_catalog.pg_type where oid = a.atttypid
    union all
    select y.oid, y.typtype, y.typbasetype, y.typtypmod, y.typnotnull
    from types join pg_catalog.pg_type y on y.oid = types.typbasetype where types.typtype = 'd')
  select max(typtypmod) as typtypmod, bool_or(typnotnull) as typnotnull, max(oid::bigint) filter (where typtype <> 'd') as base
  from types) t on true
join pg_catalog.pg_type b on b.oid = t.base
left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
where a.attrelid = $1::oid and a.attnum > 0 and not a.attisdropped
order by a.attnum
