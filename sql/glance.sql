-- Finds any pending row that is due, at any place in the order. It is sent alone, without limits before it, and so costs an
-- idle relay half as much as a read.
-- Last parameter: the shards, unless all are owned. No locks. Uses the index of pending rows in table order.
select true, null::bigint from {table} where {due}{owned} order by {ordering} limit 1
