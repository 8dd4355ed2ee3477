-- Reads the first pending rows of some keys, as keys.sql does, where there is no index by key.
-- The parameters are those of keys.sql. No locks. Passes once over all pending rows, without their contents.
select {visible.sql}, null::bigint{nothing}
union all
(select null, null, null, null, null, true, {hash}, {version}, {columns}
 from {table}
 where {rows} and {found} = any (array(
   select found
   from (select {found} as found, {hash} as hash, row_number() over (partition by {hash} order by {ordering}) as place
         from {table}
         where {rows} and {hash} = any ($2::bigint[]){from_lows}) numbered
   where place <= ($4::integer[])[array_position($2::bigint[], hash)]))
   and {hash} = any ($2::bigint[])
 order by {hash}, {ordering}
 limit $1)
