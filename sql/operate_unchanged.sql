-- Counts chosen rows that still are as they were chosen, since another session kept them locked.
-- $1 the identities, $2 the time of the choice. No locks. Leans on the primary key, or on the places in the identities.
select count(*) from {table} where {here}{identity} = any ($1::text[]::{identity_type}[]) and {still}
