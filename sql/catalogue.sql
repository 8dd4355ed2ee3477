-- Finds the configured table by its name, along the search path if $1 is empty, and describes it and what belongs to it in JSON. No row
-- if there is none.
-- $1 schema or empty, $2 table. Reads the catalogue only; takes no lock on the table.
--   columns     with the base type of a domain, the rights of this role, the comment, and how many values each session reserves at a time
--               from the column's sequence
--   indexes     valid b-tree indexes: key columns in order ('=' and the text of an expression), predicate, and whether it is unique
--   doorbell    the channel that the doorbell's trigger notifies of each insert: it is enabled, its function notifies, no column or row
--               condition limits it, and transactions of the server cannot be prepared, for which it does not ring. Its arguments are
--               separated by zero bytes; bytea would arrive in the form that the session's bytea_output asks for
--   partitions  their number; the column by whose ranges they are made and its type, if it is one column with times; and the constants
--               at which they begin or end
select to_json(found) from (
select c.oid::bigint, n.nspname as schema, c.relkind as kind, c.relhassubclass as children,
       current_user as role, row_security_active(c.oid) as policies,
       current_setting('transaction_read_only') = 'on' and not pg_is_in_recovery() as readonly,
       (select d.oid::text from pg_catalog.pg_database d where d.datname = current_database()) as database,
       current_setting('server_encoding') as encoding,
       (extract(epoch from current_setting('deadlock_timeout')::interval) * 1000000000)::bigint as deadlock,
       (select json_agg(col) from (
          select a.attname as plain, b.oid::bigint, format_type(a.atttypid, a.atttypmod) as type,
                 case when b.typname in ('varchar', 'bpchar') and coalesce(nullif(t.typtypmod, -1), a.atttypmod) > 4
                      then coalesce(nullif(t.typtypmod, -1), a.atttypmod) - 4 else 0 end as width,
                 a.attnotnull or t.typnotnull as notnull,
                 has_column_privilege(a.attrelid, a.attnum, 'update') as writable,
                 btrim(pg_get_expr(d.adbin, d.adrelid)) as default,
                 coalesce((select max(s.seqcache) from pg_catalog.pg_depend o join pg_catalog.pg_sequence s on s.seqrelid = o.objid
                           where o.classid = 'pg_catalog.pg_class'::regclass and o.refclassid = o.classid
                             and o.refobjid = a.attrelid and o.refobjsubid = a.attnum), 1) as cache,
                 col_description(a.attrelid, a.attnum) as comment
          from pg_catalog.pg_attribute a
          join lateral (
            with recursive types as ( -- a domain's base type may be a domain
              select oid, typtype, typbasetype, typtypmod, typnotnull from pg_catalog.pg_type where oid = a.atttypid
              union all
              select y.oid, y.typtype, y.typbasetype, y.typtypmod, y.typnotnull
              from types join pg_catalog.pg_type y on y.oid = types.typbasetype where types.typtype = 'd')
            select max(typtypmod) as typtypmod, bool_or(typnotnull) as typnotnull,
                   max(oid::bigint) filter (where typtype <> 'd') as base
            from types) t on true
          join pg_catalog.pg_type b on b.oid = t.base
          left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
          where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
          order by a.attnum) col) as columns,
       (select json_agg(idx) from (
          select array(
                   select coalesce(a.attname::text, '=' || pg_get_indexdef(i.indexrelid, k.n::integer, false))
                   from unnest(i.indkey[0:i.indnkeyatts - 1]) with ordinality k (attnum, n)
                   left join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum and k.attnum > 0
                   order by k.n) as columns,
                 pg_get_expr(i.indpred, i.indrelid) as predicate, i.indisunique as unique
          from pg_catalog.pg_index i
          join pg_catalog.pg_class x on x.oid = i.indexrelid
          join pg_catalog.pg_am m on m.oid = x.relam
          where i.indrelid = c.oid and i.indisvalid and i.indisready and m.amname = 'btree') idx) as indexes,
       (select convert_from(substring(t.tgargs for greatest(position(decode('00', 'hex') in t.tgargs) - 1, 0)),
                 current_setting('server_encoding'))
        from pg_catalog.pg_trigger t
        join pg_catalog.pg_proc p on p.oid = t.tgfoid
        where t.tgrelid = c.oid and not t.tgisinternal
          and (t.tgname = 'outbox_relay_doorbell' or p.prosrc like '%({class},%'
               or pg_catalog.pg_get_triggerdef(t.oid) like '%({class},%')
          and t.tgenabled in ('O', 'A') and t.tgtype & 5 = 4 and p.prosrc like '%pg_notify(tg_argv[0]%'
          and current_setting('max_prepared_transactions') = '0'
        order by t.tgname limit 1) as doorbell,
       (select to_json(parts) from (
          select count(distinct p.oid) as number, max(a.attname::text) as column, max(format_type(a.atttypid, null)) as type,
                 array_agg(bound) filter (where bound is not null) as bounds
          from (
            select i.inhparent, x.oid, pg_get_expr(x.relpartbound, x.oid) as expression
            from pg_catalog.pg_inherits i
            join pg_catalog.pg_class x on x.oid = i.inhrelid
            where i.inhparent = c.oid and c.relkind = 'p' and not i.inhdetachpending) p
          left join pg_catalog.pg_partitioned_table t on t.partrelid = p.inhparent and t.partstrat = 'r' and t.partnatts = 1
          left join pg_catalog.pg_attribute a on a.attrelid = t.partrelid and a.attnum = t.partattrs[0]
            and a.atttypid in ('date'::regtype, 'timestamp'::regtype, 'timestamptz'::regtype)
          cross join lateral unnest(array[
            substring(expression from $re$FROM \('([^']*)'\)$re$), substring(expression from $re$TO \('([^']*)'\)$re$)])
            bound) parts) as partitions
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where c.relname = $2
  and c.relkind in ('r', 'p', 'v', 'm', 'f')
  and case when $1::text = ''
      then n.nspname = any (current_schemas(true))
      else n.nspname = $1 end
order by array_position(current_schemas(true), n.nspname)
limit 1) found
