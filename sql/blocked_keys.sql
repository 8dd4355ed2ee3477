-- Says which of some keys have failed rows.
-- $1 the keys' hashes. No locks. Uses an index of failed rows by key if there is one, otherwise it passes over all failed rows.
select distinct {hash} from {table} where {failed} and {key} is not null and {hash} = any ($1::bigint[])
