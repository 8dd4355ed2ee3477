-- Reads the keys of failed rows after a place, in the order in which the rows failed.
-- $1 the number of rows, $2 the shards or null for all, $3 and $4 the time and id of that place or null. No locks, no texts. Uses the
-- index of failed rows; not sent where there is none.
select {failed_at}, {id}, {hash}, {shard}
from {table}
where {failed} and {key} is not null and ($2::integer[] is null or {shard} = any ($2)){range}
order by {failed_at}, {id}
limit $1
