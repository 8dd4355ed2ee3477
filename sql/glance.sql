-- Finds any pending row that is due, wherever in the order. It is sent alone, without limits before it: it costs an idle relay half as
-- much as a read.
-- At last the shards unless all are owned. No locks. Leans on the index of pending rows in table order.
select true, null::bigint from {table} where {due}{owned} order by {ordering} limit 1
