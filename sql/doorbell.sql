-- The doorbell: an insert wakes a relay that sleeps, so that it need not wait for its next poll.
--
-- A relay that sleeps, or relays few rows a second, holds an advisory lock shared: {class} with the table's oid. The
-- trigger's condition tries to take it exclusively: if it can, no relay holds it and nothing is sent, since a NOTIFY in each
-- transaction would make commits in the whole cluster wait for one another. The lock belongs to the session and is released at
-- once; if it were held to the end of the transaction, writers would take each other for a sleeping relay. The function is called
-- only if the lock is taken, and tries again, since another writer releases it within some microseconds.
--
-- A notification is sent when the transaction commits. A row that commits just after the relay went
-- to sleep, in a transaction that inserted it before that, waits for the next poll.
--
-- To remove it:
--   drop trigger outbox_relay_doorbell on {table};
--   drop function {function}();
create or replace function {function}() returns trigger
  language plpgsql
  set search_path = pg_catalog, pg_temp
as $$
begin
  for try in 1..10 loop
    if pg_try_advisory_lock({class}, tg_relid::integer) then
      perform pg_advisory_unlock({class}, tg_relid::integer);
      return null;
    end if;
  end loop;
  perform pg_notify(tg_argv[0], '');
  return null;
end
$$;

create or replace trigger outbox_relay_doorbell
  before insert on {table}
  for each statement
  when (case when pg_try_advisory_lock({class}, {oid}) then not pg_advisory_unlock({class}, {oid}) else true end)
  execute function {function}({channel});
