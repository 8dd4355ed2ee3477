-- Locks those of the acknowledged rows that are not settled yet, and returns them.
-- $1 the identities. Waits for no lock: {wait} says what becomes of rows that another session keeps locked. Leans on the primary
-- key, or on the places in the identities.
select {identity} from {table} where {here}{identity} = any ($1::{identity_type}[]) and {unmarked}
for {lock} {wait}
