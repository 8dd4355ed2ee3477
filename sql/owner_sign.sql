-- Looks for the lock by which the control connection shows which server and database it has reached.
-- $1 the random number that it has locked.
select exists (
  select from pg_catalog.pg_locks l
  join pg_catalog.pg_database d on d.oid = l.database and d.datname = current_database()
  where l.locktype = 'advisory' and l.objsubid = 1
    and l.classid = (($1::bigint >> 32) & 4294967295)::oid and l.objid = ($1::bigint & 4294967295)::oid)
