-- Tells the doorbell trigger that this relay need not be notified. The session that listens holds no other lock.
-- Releases an advisory lock.
select pg_advisory_unlock_all()
