-- Answers, and makes the doorbell trigger notify this relay of each insert, or no longer. The lock is only tried, because a writer may
-- hold it for a moment. It may be held already. The session that listens holds no other lock.
-- $1 true if the trigger is to notify, $2 the table's quoted name. Takes or releases an advisory lock, shared. Returns whether the
-- server's queue of notifications has room, and whether the lock is held.
select pg_notification_queue_usage() < 0.5,
  case when $1 then coalesce(pg_try_advisory_lock_shared({class}, to_regclass($2)::integer), false)
    else pg_advisory_unlock_all() is null end
