-- Whether rows of a destination are pending in a range of partitions. Part of pending_range.sql.
exists (select from {table} where {pending} and {part_key} >= low and {part_key} < high)
