-- Returns how large a table is, its partitions included, without indexes and values that are stored out of line.
-- $1 the table. Reads the catalogue and asks the file system.
select coalesce(sum(pg_relation_size(relid)), pg_relation_size($1::text::regclass))::bigint from pg_partition_tree($1::text::regclass) where isleaf
