-- Chooses rows for an operator's command. The server keeps them beyond the transaction. Therefore the table is read
-- once however many transactions change the rows, and neither memory nor an open transaction has to hold them.
-- The parameters are those of the selection. No locks. Uses an index of the rows in that state, if there is one.
declare {cursor} scroll cursor with hold for
select ({row})::text as identity_text, coalesce({id}::text, '') as id_text, coalesce({topic}::text, '') as topic_text, {taker}, coalesce(({order})::text, '') as order_text, {key},
  {action} as action_text, {inserted_time} as inserted_time
from {table}
where {state}
{sorting}
limit {most}
