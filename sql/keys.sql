-- Reads the first pending rows of some keys, after one row with what was visible, as tail.sql does.
-- $1 the number of rows in all, $2 the keys' hashes, $3 the bytes of a row, $4 the number of rows of each key, $5 the first order
-- value of each, where such values are numbers or times. No locks. Uses the index of pending rows by key. A range of hashes, not an equality, is what leaves
-- the planner no other index: it would take that of pending rows in table order for the sake of the limit, and pass all rows of
-- other keys.
select {visible.sql}, null::bigint{nothing}
union all
(select null, null, null, null, null, r.*
 from unnest($2::bigint[], $4::integer[]{lows}) as "asked keys" (hash, most{low})
 cross join lateral (
   select true, {hash}, {version}, {columns}
   from {table}
   where {rows} and {from} >= {asked} and {hash} <= "asked keys".hash
   order by {key_ordering}
   limit "asked keys".most) r
 limit $1)
