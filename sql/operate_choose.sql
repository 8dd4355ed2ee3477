-- Chooses rows for a person, in table order. The server keeps them beyond the transaction, so that the table is gone through once however
-- many transactions change them, and neither memory nor an open transaction has to hold them.
-- The parameters are those of the selection. No locks. Leans on an index of the rows in that state, if there is one.
declare {cursor} scroll cursor with hold for
select ({identity})::text, {id}::text, {topic}::text, {taker}
from {table}
where {state}
order by {order}, {id}
