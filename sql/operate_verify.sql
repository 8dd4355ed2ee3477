-- Chooses relayed rows of one destination, in table order, to be compared with what its broker holds. The server keeps them
-- beyond the transaction. Therefore the table is read once, and no open transaction has to hold the rows while the broker is
-- read.
-- The parameters are those of the selection. No locks. Uses an index of relayed rows by time, if there is one.
declare outbox_relay_relayed no scroll cursor with hold for
select {id}::text as id_text, coalesce(({message_topic})::text, '') as topic_text, case when {ordered} then {key} end as key_text,
  least(case when isfinite({inserted_time}) then {inserted_time} end, {relayed_time}) as sent_after, {relayed_time} as relayed_time
from {table}
where {state} and isfinite({relayed_at}) and {relayed_at} <> 'epoch'
order by {ordering}
