-- Lists failed rows, the latest failures first.
-- The parameters are those of the selection. No locks. Uses an index of failed rows, if there is one.
select coalesce({id}::text, '') as id_text, {taker}, coalesce({topic}::text, '') as topic_text, {key}, {attempt}::bigint, {inserted_time}, {failed_time}, {last_error}::text, {headers}, {payload}
from {table}
where {state}
order by {failed_at} desc, {id}
limit {most}
