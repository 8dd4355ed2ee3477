-- Finds the configured table by its name, along the search path if $1 is null.
-- $1 schema or null, $2 table. Reads the catalogue only; takes no lock on the table.
select c.oid, n.nspname, c.relkind::text, c.relhassubclass,
       has_schema_privilege(n.oid, 'usage'),
       has_table_privilege(c.oid, 'delete'),
       current_user::text, c.relpersistence = 'u', row_security_active(c.oid),
       case when c.relkind in ('r', 'p') then has_column_privilege(c.oid, 'xmin', 'select') else false end,
       (current_setting('transaction_read_only') = 'on' and not pg_is_in_recovery()),
       (select d.oid::text from pg_catalog.pg_database d where d.datname = current_database()), current_setting('server_encoding'),
       (extract(epoch from current_setting('deadlock_timeout')::interval) * 1000)::bigint
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relname = $2
  and c.relkind in ('r', 'p', 'v', 'm', 'f')
  and case when $1::text is null
      then n.nspname = any (current_schemas(true))
      else n.nspname = $1 end
order by array_position(current_schemas(true), n.nspname)
limit 1
