-- What a statement that reads rows says of itself: see Visible in package outbox. The last column is the time in the server since the
-- statement's transaction has begun.
pg_current_snapshot(), age('3'::xid)::bigint, (extract(epoch from now()) * 1000000)::bigint,
  (extract(epoch from clock_timestamp() - now()) * 1000000)::bigint
