-- Locks the acknowledged rows that are not settled yet, and returns them.
-- $1 the identities. A statement that includes it says what happens to rows that another session keeps locked. Uses the primary
-- key.
select {identity} from {table} where {here}{identity} = any ($1::{identity_type}[]) and {unmarked}
for {lock}
