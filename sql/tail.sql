-- Reads a page of rows in order, before one row with what was visible, the present time, the time that reading took and
-- the time until the next row becomes due, all in microseconds: that row comes also when no other does, and is of the same snapshot.
-- $1 the number of rows, $2 the shards or null for all, or the ids where rows are read again, $3 the bytes of a row, the rest as range
-- and after say. No locks. Uses the index of pending rows in table order, or that of due times, from the lower bound of range on, the
-- index of failed rows, or the primary key.
(select null::pg_snapshot, null::bigint, null::bigint, null::bigint, null::bigint, /*after*/, {hash}, {version}, {columns}
 from {table}
 where {rows} and {which}/*range*/
 order by {ordering}
 limit $1)
union all
select {visible.sql}, {next}{nothing}
