-- Finds the doorbell trigger: the channel that it notifies, whether it is enabled, whether it rings for each insert, and whether
-- transactions of the server can be prepared, for which it does not ring. It rings for each insert if its function notifies, and no
-- column or row condition limits it.
-- $1 oid of the table. Reads the catalogue only. Arguments are separated by zero bytes; bytea would arrive in the form that the
-- session's bytea_output asks for.
select convert_from(substring(t.tgargs for greatest(position(decode('00', 'hex') in t.tgargs) - 1, 0)), current_setting('server_encoding')),
       (t.tgenabled in ('O', 'A')),
       (t.tgtype & 5 = 4 and p.prosrc like '%pg_notify(tg_argv[0]%'),
       (current_setting('max_prepared_transactions') <> '0')
from pg_catalog.pg_trigger t
join pg_catalog.pg_proc p on p.oid = t.tgfoid
where t.tgrelid = $1::oid and not t.tgisinternal
  and (t.tgname = 'outbox_relay_doorbell' or p.prosrc like '%({class},%' or pg_catalog.pg_get_triggerdef(t.oid) like '%({class},%')
order by 2 desc, t.tgname limit 1
