-- When a row is to be published again, txid is set to the transaction that requests it, in a table with that column.
do $outbox_relay$
begin
  if exists (select from pg_attribute where attrelid = {relation}::regclass and attname = {name} and atttypid = 'xid8'::regtype and not attisdropped) then
    grant update ({column}) on {table} to {role};
  end if;
end
$outbox_relay$;
