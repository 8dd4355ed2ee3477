-- Rows that exist count as done. To include some, empty the column for them afterwards, in small parts:
--   update {table} set {relayed} = null where ...;
do $outbox$
begin
  if not exists (select from pg_catalog.pg_attribute where attrelid = {oid} and attname = {relayed_name} and not attisdropped) then
    alter table {table} add column {relayed} timestamptz default 'epoch';
    alter table {table} alter column {relayed} drop default;
  end if;
end $outbox$;
