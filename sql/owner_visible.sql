-- Looks for the lock that this session took in an earlier transaction. Behind a transaction pooler the
-- session is another one by now, and it is not there.
-- $1 the table's lock class.
select exists (
  select from pg_catalog.pg_locks
  where locktype = 'advisory' and granted and pid = pg_backend_pid()
    and classid = ($1::bigint & 4294967295)::oid and objid = 4294967295::oid and objsubid = 2)
