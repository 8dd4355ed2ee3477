-- The doorbell: an insert wakes a relay that sleeps, so that it need not wait for its next poll.
--
-- A sleeping relay holds an advisory lock shared. The trigger's condition tries to take it exclusively: if it
-- can, nobody sleeps and nothing is sent, since a NOTIFY in each transaction would make commits in the
-- whole cluster wait for one another. The lock is the session's and given back at once; held to the
-- end of the transaction, writers would take each other for a sleeping relay. Two writers can still meet
-- there, hence the second try. The function is called only to notify.
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
  perform pg_catalog.pg_notify(tg_argv[0], '');
  return null;
end
$$;

create or replace trigger outbox_relay_doorbell
  before insert on {table}
  for each statement
  when (case
    when pg_try_advisory_lock({lock}) then not pg_advisory_unlock({lock})
    when pg_try_advisory_lock({lock}) then not pg_advisory_unlock({lock})
    else true
  end)
  execute function {function}({channel});
