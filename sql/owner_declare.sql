-- Changes what this session's membership in a group says of the replica.
-- $1 the group's lock class, $2 the new number, $3 the previous number. Takes and releases advisory locks, shared.
select pg_advisory_lock_shared($1, -$2::integer), pg_advisory_unlock_shared($1, -$3::integer)
