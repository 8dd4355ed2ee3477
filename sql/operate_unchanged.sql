-- Counts chosen rows that have not changed since they were chosen, because another session kept them locked.
-- $1 the identities, $2 the time of the choice. No locks. Uses the primary key.
select count(*) from {table} where {row_here}{row} = any ($1::text[]::{row_type}[]) and {still}
