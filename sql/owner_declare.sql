-- Changes what this session's memberships in a group say of the replica.
-- $1 the lock classes, $2 the new numbers, $3 the previous numbers. Takes and releases advisory locks, shared.
select pg_advisory_lock_shared(class, -now), pg_advisory_unlock_shared(class, -before)
from unnest($1::integer[], $2::integer[], $3::integer[]) member (class, now, before)
