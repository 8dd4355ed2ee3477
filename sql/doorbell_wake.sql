-- Lets the doorbell trigger stop notifying this relay. The session that listens holds no other lock.
-- Releases an advisory lock.
select pg_advisory_unlock_all()
