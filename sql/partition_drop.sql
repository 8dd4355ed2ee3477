-- Drops a partition of which every row is done, with the function that outbox-relay schema --partitioned prints, and returns
-- whether it did.
-- $1 the partition, $2 the cutoff, $3 whether failed rows count as done. The comment of that function describes its locks.
select {function}($1::text::regclass, $2::timestamptz, $3::boolean)
