-- Returns the settings of the server and of this session that matter to the relay.
-- Reads settings and the list of sessions.
select current_setting('server_version'), current_setting('server_version_num')::integer,
       current_setting('transaction_read_only') = 'on',
       current_setting('synchronous_commit'),
       (select count(*) from pg_catalog.pg_stat_activity where backend_type = 'client backend'),
       current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint,
       (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint, current_database()::text, current_user::text
