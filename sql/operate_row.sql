-- Returns the state of rows at one destination.
-- $1 the ids. No locks. Uses the primary key.
select {id}::text as id_text, coalesce({topic}::text, '') as topic_text, {message_topic}, {shard}, {inserted_time}, {taken}, {taker}, {key},
  coalesce({scheduled}, false), {attempt}::bigint, {last_error}::text, {due_at}, {relayed_time}, {failed_time}
from {table}
where {id} = any ($1::text[]::{id_type}[])
order by {order}, {id}
limit 1000
