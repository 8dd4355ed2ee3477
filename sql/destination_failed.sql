-- Rows that have failed at {origin} already count as done. To include some, empty the column for them afterwards:
--   update {table} set {relayed} = null where {order} is not null;
do $outbox$
begin
  if not exists (select from pg_catalog.pg_attribute where attrelid = {oid} and attname = {relayed_name} and not attisdropped) then
    alter table {table} add column {relayed} timestamptz;
    update {table} set {relayed} = 'epoch' where {order} is not null;
  end if;
end $outbox$;
