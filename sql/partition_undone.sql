-- Reports whether a partition holds a row that is not done.
-- $1 and $3 the bounds of the partition's times, $2 the cutoff. No locks. Reads the whole partition if there is no such row.
select exists (select from {table} where {inserted_at} >= {low} and {inserted_at} < {high} and not coalesce({done}, false))
