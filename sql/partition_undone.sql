-- Tells whether a partition holds a row that is not done.
-- $1 and $3 between which times it holds rows, $2 the cutoff. No locks. Reads the partition to its end if it holds none.
select exists (select from {table} where {inserted_at} >= {low} and {inserted_at} < {high} and not coalesce({done}, false))
