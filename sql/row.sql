-- The columns of each row that is read, in the order in which package outbox decodes them. payload and headers have two columns each:
-- the second one holds what is large, or says how large it is.
{id}, {order}, {first}, {topic_text}, {payload_small}, {headers_small}, {key_text}, coalesce({attempt}, 1)::bigint,
  {inserted_at}, {available},
  case when {last_error} is not null and isfinite({updated_at})
    then (extract(epoch from {updated_now} - {updated_at}) * 1000000)::bigint end,
  {shard}, {writer}, {place}, {identity_text}, {payload_large}, {headers_large}{texts}
