-- Returns what keeps vacuum from removing dead rows: the age of the oldest open transaction that this role may see, the age in
-- transactions of the oldest snapshot of all sessions, the age of the oldest prepared transaction, and the age in transactions
-- of the oldest replication slot without a reader.
-- Reads the lists of sessions, prepared transactions and slots.
select coalesce((select extract(epoch from max(now() - xact_start)) from pg_catalog.pg_stat_activity
                 where pid <> pg_backend_pid() and backend_type = 'client backend'), 0)::bigint,
       coalesce((select max(age(backend_xmin)) from pg_catalog.pg_stat_activity where pid <> pg_backend_pid()), 0)::bigint,
       coalesce((select extract(epoch from max(now() - prepared)) from pg_catalog.pg_prepared_xacts), 0)::bigint,
       coalesce((select max(greatest(age(xmin), age(catalog_xmin))) from pg_catalog.pg_replication_slots where not active), 0)::bigint
