-- Gives the session the relay's settings, or only the transaction. In a session that a pooler lends, which has another process
-- than the pooler has reported, it changes nothing. Settings that the server does not know are left out. pg_catalog comes first in
-- the search path even where the role puts a schema with functions of the same names before it. Returns whether the session is
-- its connection's own.
-- {process} is the process of the session, null for the transaction only.
select coalesce(pg_catalog.pg_backend_pid() operator(pg_catalog.=) {process}, false),
  pg_catalog.count(pg_catalog.set_config(name, value, {process} is null))
from (
  select name, value from rows from (pg_catalog.unnest({names}::text[]), pg_catalog.unnest({values}::text[])) owned (name, value)
  union all
  select 'search_path', 'pg_catalog, ' operator(pg_catalog.||) pg_catalog.current_setting('search_path')
  where 'pg_catalog'::name operator(pg_catalog.=) any (pg_catalog.current_schemas(false))) settings
where ({process} is null or pg_catalog.pg_backend_pid() operator(pg_catalog.=) {process})
  and pg_catalog.current_setting(name, true) operator(pg_catalog.<>) value
