-- Reads pending rows in order, without their contents, after one row with what was visible, as tail.sql does.
-- $1 the number of rows, $2 the shards or null for all, the rest as {range} says. No locks. Uses the index of pending rows in table
-- order.
select {visible}{nothing}
union all
(select null, null, null, null, {swept}
 from {table}
 where {rows} and ($2::integer[] is null or {shard} = any ($2)){range}
 order by {ordering}
 limit $1)
