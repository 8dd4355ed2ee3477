-- Takes the lock on the table that a delete takes, and does nothing. Fires no trigger.
-- Locks the table against migrations. Reads the catalogue only.
explain (costs off) delete from {table} where false
