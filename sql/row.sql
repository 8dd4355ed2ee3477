-- The columns of each row that is read, in the order in which package outbox decodes them. payload and headers have two columns each:
-- one holds what is large, or says how large it is. The waiting time ends at a hundred years, in microseconds.
{id}, {first}, coalesce({attempt}, 1)::bigint, {inserted_at}, {available},
  case when {last_error} is not null and isfinite({updated_at})
    then greatest(least(extract(epoch from {updated_now} - {updated_at}) * 1000000, 3e15), -3e15)::bigint end,
  {shard}, {writer}, {place}, {identity_text}, {payload_large}, {headers_large},
  {order}, {topic_text}, {key_text}, {payload_small}, {headers_small}{texts}
