do $outbox$
declare
  place text; -- the columns that give the table its order: the first of these that exists, behind the priority if there is one
begin
  select quote_ident(a.attname) || case when a.attname in ({id}, 'seq') then '' else ', ' || quote_ident({id}) end into strict place
  from unnest(array[{order}]) with ordinality wanted (name, n)
  join pg_catalog.pg_attribute a on a.attrelid = {oid} and a.attname = wanted.name and not a.attisdropped
  order by n limit 1;
  if exists (select from pg_catalog.pg_attribute where attrelid = {oid} and attname = {priority} and not attisdropped
             and atttypid in ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype)) then
    place := '(~coalesce(' || quote_ident({priority}) || ', 0)::bigint), ' || place;
  end if;
  execute {create} || place || {where};
end $outbox$;
