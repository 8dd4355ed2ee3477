-- Reads pending rows in order, without their contents, after one row with what was visible, as tail.sql does.
-- $1 the number of rows, $2 the shards or null for all, the rest as {range} says. No locks. Uses the index of pending rows in table
-- order.
select pg_current_snapshot(), age('3'::xid)::bigint, (extract(epoch from now()) * 1000000)::bigint{nothing}
union all
(select null, null, null, {swept}
 from {table}
 where {rows} and ($2::integer[] is null or {shard} = any ($2)){range}
 order by {ordering}
 limit $1)
