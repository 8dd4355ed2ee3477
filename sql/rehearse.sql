-- Finds out which rows the server would not mark, or not delete: it writes them, and the transaction is rolled back
-- afterwards. All of them are written at once; those that this leaves as they are, or all if it fails, are then written one
-- by one. PL/pgSQL catches what the server says, so that the server logs no error.
-- The setting outbox_relay.rows holds the identities as an array of JSON. The setting outbox_relay.refused gets an object of
-- JSON with the numbers of the rows that are not written, from 1 on: of each error the fields of pgconn.PgError, of whose
-- texts only the beginnings, since a trigger may fill them with the whole row; null if the write has no effect.
-- Locks the rows. It waits a moment for those that another session keeps locked: marks and rehearsals of other destinations are over
-- soon, and end between two tries. A row that stays locked is not written, with the code 55P03. Fires triggers. Uses the primary key.
do $rehearsal$
#variable_conflict use_column
declare
  outbox_relay_all {identity_type}[] := array(
    select jsonb_array_elements_text(current_setting('outbox_relay.rows')::jsonb)::{identity_type});
  outbox_relay_rows {identity_type}[] := outbox_relay_all;
  outbox_relay_left {identity_type}[] := outbox_relay_all;
  outbox_relay_refused jsonb := jsonb_build_object();
  outbox_relay_until timestamptz := clock_timestamp() + current_setting('statement_timeout')::interval * 0.9;
  outbox_relay_code text;
  outbox_relay_message text;
  outbox_relay_detail text;
  outbox_relay_hint text;
  outbox_relay_context text;
begin
  for n in 1 .. 10 loop
    begin
      perform from ({lock.sql}) locked;
      exit;
    exception
      when lock_not_available then null;
      when others then exit; -- is met again below
    end;
  end loop;
  begin
    {settle_free.sql};
    set constraints all immediate;
    outbox_relay_left := array(select unsettled.id from ({unsettled.sql}) unsettled (id, version));
  exception when others or assert_failure or query_canceled then
    if sqlstate = '57014' and clock_timestamp() > outbox_relay_until then -- no trigger's error, but this statement's time limit
      raise;
    end if;
  end;
  for n in 1 .. cardinality(outbox_relay_all) loop
    continue when outbox_relay_all[n] <> all (outbox_relay_left);
    outbox_relay_rows := outbox_relay_all[n:n];
    begin
      perform from ({lock.sql} nowait) locked;
      {settle.sql};
      set constraints all immediate;
      if exists ({unsettled.sql}) then
        outbox_relay_refused := outbox_relay_refused || jsonb_build_object(n, null);
      end if;
      raise sqlstate 'ORB00'; -- takes the write back, so that the next row does not meet it
    exception
      when sqlstate 'ORB00' then null;
      when others or assert_failure or query_canceled then
        if sqlstate = '57014' and clock_timestamp() > outbox_relay_until then
          raise;
        end if;
        get stacked diagnostics outbox_relay_code = returned_sqlstate, outbox_relay_message = message_text,
          outbox_relay_detail = pg_exception_detail, outbox_relay_hint = pg_exception_hint,
          outbox_relay_context = pg_exception_context;
        outbox_relay_refused := outbox_relay_refused || jsonb_build_object(n, jsonb_build_object('Severity', 'ERROR',
          'Code', outbox_relay_code, 'Message', left(outbox_relay_message, 500), 'Detail', left(outbox_relay_detail, 500),
          'Hint', left(outbox_relay_hint, 500), 'Where',
          case when outbox_relay_context ~ '^(SQL statement|PL/pgSQL function inline_code_block)' then '' -- this block itself
            else left(split_part(outbox_relay_context, E'\n', 1), 500) end));
    end;
  end loop;
  perform set_config('outbox_relay.refused', outbox_relay_refused::text, true);
end
$rehearsal$
