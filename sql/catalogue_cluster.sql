-- Reads the system identifier that initdb gave the server. No locks.
select system_identifier::text from pg_catalog.pg_control_system()
