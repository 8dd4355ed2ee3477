-- {purpose}
-- Run it as the owner of the table. The role must be able to connect to the database, which PUBLIC is
-- by default.
grant usage on schema {schema} to {role};
grant select on {table} to {role};
grant update ({columns}) on {table} to {role};
