-- Finds the doorbell trigger: its arguments, the channel that it notifies with a zero byte behind it, and
-- whether it is enabled.
-- $1 oid of the table. Reads the catalogue only.
select t.tgargs, (t.tgenabled <> 'D')::text
from pg_catalog.pg_trigger t
where t.tgrelid = $1::oid and not t.tgisinternal and pg_catalog.pg_get_triggerdef(t.oid) like '%({class},%'
