-- Drops a partition of which every row is done, by the function that outbox-relay schema --partitioned prints. Tells whether it did.
-- $1 the partition, $2 the cutoff, $3 whether rows that failed count as done. What is locked for a moment is said there.
select {function}($1::text::regclass, $2::timestamptz, $3::boolean)
