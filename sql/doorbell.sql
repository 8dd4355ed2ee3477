-- The doorbell: an insert wakes a relay that sleeps, so that it need not wait for its next poll.
--
-- A relay that sleeps, or relays few rows a second, holds an advisory lock shared: {class} with the table's oid. The
-- function tries to take it exclusively: if it can, no relay holds it and nothing is sent, since a NOTIFY in each
-- transaction would make commits in the whole cluster wait for one another. The lock belongs to the session and is released at
-- once, in the same expression so that nothing comes between; if it were held to the end of the transaction, writers would take
-- each other for a sleeping relay. It is tried again, since another writer releases it within some microseconds.
--
-- Nothing here waits, and nothing makes your transaction fail: an error is caught. What would only fail at the commit is left
-- out: a notification while the cluster's queue of notifications is half full, or where a transaction may be prepared
-- (max_prepared_transactions), because PREPARE TRANSACTION is refused after a notification.
--
-- A notification is sent when the transaction commits. A row that commits just after the relay went
-- to sleep, in a transaction that inserted it before that, waits for the next poll.
--
-- To remove it:
--   drop trigger outbox_relay_doorbell on {table};
--   drop function {function}();
create or replace function {function}() returns trigger
  language plpgsql
as $$
begin
  for try in 1..10 loop
    if (case when pg_catalog.pg_try_advisory_lock({class}, tg_relid::integer)
        then pg_catalog.pg_advisory_unlock({class}, tg_relid::integer) end) then
      return null;
    end if;
  end loop;
  if pg_catalog.pg_notification_queue_usage() operator(pg_catalog.<) 0.5
     and pg_catalog.current_setting('max_prepared_transactions') operator(pg_catalog.=) '0' then
    perform pg_catalog.pg_notify(tg_argv[0], '');
  end if;
  return null;
exception when others then
  return null;
end
$$;

create or replace trigger outbox_relay_doorbell
  before insert on {table}
  for each statement
  execute function {function}({channel});
