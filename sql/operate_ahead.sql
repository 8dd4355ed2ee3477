-- Reports whether a row of some keys that lies before a position, and keeps their order, is still to be relayed.
-- $1 the keys, $2 the position. No locks. Uses the index of pending rows in table order.
select exists (select from {table} where {pending} and {key} = any ($1::text[]) and {order} < $2::text::{order_type})
