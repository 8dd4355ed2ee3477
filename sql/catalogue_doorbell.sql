-- Finds the doorbell trigger: its arguments, the channel that it notifies followed by a zero byte, whether it is enabled, and
-- whether it rings for each insert. It does if its function notifies and no column or row condition limits it.
-- $1 oid of the table. Reads the catalogue only.
select t.tgargs, (t.tgenabled in ('O', 'A'))::text, (t.tgtype & 5 = 4 and p.prosrc like '%pg_notify(tg_argv[0]%')::text
from pg_catalog.pg_trigger t
join pg_catalog.pg_proc p on p.oid = t.tgfoid
where t.tgrelid = $1::oid and not t.tgisinternal and pg_catalog.pg_get_triggerdef(t.oid) like '%({class},%'
