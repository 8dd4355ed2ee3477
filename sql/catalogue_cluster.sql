-- Reads the number that the server was given by initdb. Locks nothing.
select system_identifier::text from pg_catalog.pg_control_system()
