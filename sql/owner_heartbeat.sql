-- Counts the replicas. That it is answered tells that the session and its locks live on.
-- $1 the table's lock class.
select count(*)
from pg_catalog.pg_locks l
join pg_catalog.pg_database d on d.oid = l.database and d.datname = current_database()
where l.locktype = 'advisory' and l.granted
  and l.classid = ($1::bigint & 4294967295)::oid and l.objid = 4294967295::oid and l.objsubid = 2
