-- Returns which cluster the server belongs to, and its timeline: each promotion of a standby begins a later one. Reads the control file.
select system_identifier, left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8) from pg_catalog.pg_control_system()
