-- The doorbell: an insert wakes a relay that sleeps, so that it need not wait for its next poll.
--
-- A sleeping relay holds an advisory lock shared. The trigger tries to take it exclusively: if it can,
-- nobody sleeps and nothing is sent, since a NOTIFY in each transaction would make commits in the
-- whole cluster wait for one another. The lock is the session's and given back at once; held to the
-- end of the transaction, writers would take each other for a sleeping relay.
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
declare
  class constant integer := hashtext('outbox-relay:doorbell');
  outbox constant integer := hashtext(tg_table_schema || '.' || tg_table_name);
begin
  if pg_try_advisory_lock(class, outbox) then
    perform pg_advisory_unlock(class, outbox);
  else
    perform pg_notify(tg_argv[0], '');
  end if;
  return null;
end
$$;

create or replace trigger outbox_relay_doorbell
  after insert on {table}
  for each statement execute function {function}({channel});
