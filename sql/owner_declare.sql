-- Changes what this session's membership says of the replica.
-- $1 the table's lock class, $2 the new number, $3 the previous number. Takes and releases an advisory lock, shared.
select pg_advisory_lock_shared($1, -$2::integer), pg_advisory_unlock_shared($1, -$3::integer)
