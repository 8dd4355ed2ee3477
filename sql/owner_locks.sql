-- Lists the locks of all replicas: shards (0 and more) and memberships (minus their number). An answer shows that the session
-- and its locks still exist.
-- $1 the lock classes.
select l.classid::bigint, l.objid::bigint, l.pid, l.pid = pg_backend_pid()
from pg_catalog.pg_locks l
join pg_catalog.pg_database d on d.oid = l.database and d.datname = current_database()
where l.locktype = 'advisory' and l.granted and l.objsubid = 2
  and l.classid = any (array(select (class & 4294967295)::oid from unnest($1::bigint[]) class))
