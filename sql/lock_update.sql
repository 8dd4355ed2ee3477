-- Takes the lock on the table that an update takes, and does nothing. Fires no trigger.
-- Locks the table against migrations. Reads the catalogue only.
explain (costs off) update {table} set {column} = {column} where false
