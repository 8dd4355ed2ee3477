-- Takes the lock on the table that any write takes, and does nothing. Fires no trigger.
-- Locks the table against migrations. Reads the catalogue only.
explain (costs off) {write} where false
