-- Lists the acknowledged rows that are not settled yet, with their present versions and places.
-- $1 the identities. Uses the primary key.
select {identity}, {version}, {place} from {table} where {here}{identity} = any ($1::{identity_type}[]) and {unmarked}
