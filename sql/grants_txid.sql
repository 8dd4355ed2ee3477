-- A row that is to be published again takes the transaction that says so for its writer, in a table with that column.
do $outbox_relay$
begin
  if exists (select from pg_attribute where attrelid = {relation}::regclass and attname = {name} and atttypid = 'xid8'::regtype and not attisdropped) then
    grant update ({column}) on {table} to {role};
  end if;
end
$outbox_relay$;
