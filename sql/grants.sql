-- All that the relay needs, and no more: it cannot change payloads, insert, or alter anything.
-- Run it as the owner of the table. The role must be able to connect to the database, which PUBLIC is
-- by default.
grant usage on schema {schema} to {role};
grant select on {table} to {role};
grant update ({columns}) on {table} to {role};
