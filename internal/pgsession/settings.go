package pgsession

import (
	"slices"
	"strings"
)

// owned are the settings that a session of the relay has whatever the server, the database, the role, the URL and PG*
// variables say, each with its value. Values are PostgreSQL's own defaults unless a comment says why not: plans are
// then those that were tested, and a text is the same whoever reads it. A setting that a server does not know is left
// out.
const owned = `
# How values are written: these texts are published, hashed and compared.
client_encoding = UTF8
DateStyle = ISO, MDY
IntervalStyle = postgres
TimeZone = UTC
timezone_abbreviations = Default
bytea_output = hex
extra_float_digits = 1
lc_monetary = C
lc_numeric = C
lc_time = C
xmlbinary = base64
xmloption = content
quote_all_identifiers = off

# What statements mean.
standard_conforming_strings = on
backslash_quote = safe_encoding
escape_string_warning = on
array_nulls = on
transform_null_equals = off
gin_fuzzy_search_limit = 0
row_security = on
restrict_nonsystem_relation_kind =

# Transactions: the relay's are short and need no more than this. Two replicas would disturb each other at a higher
# level.
default_transaction_isolation = read committed
default_transaction_deferrable = off

# Limits: each statement has its own.
statement_timeout = 0
transaction_timeout = 0
lock_timeout = 0
idle_in_transaction_session_timeout = 0
idle_session_timeout = 0
exit_on_error = off

# Notices are not read. Parameters in an error's context would make each error look like a trigger's.
client_min_messages = notice
log_parameter_max_length_on_error = 0

# The planner. Nothing is compiled: that takes longer than any statement of the relay.
jit = off
plan_cache_mode = auto
constraint_exclusion = partition
cursor_tuple_fraction = 0.1
from_collapse_limit = 8
join_collapse_limit = 8
recursive_worktable_factor = 10
cpu_index_tuple_cost = 0.005
cpu_operator_cost = 0.0025
cpu_tuple_cost = 0.01
random_page_cost = 4
seq_page_cost = 1
effective_cache_size = 4GB
min_parallel_index_scan_size = 512kB
min_parallel_table_scan_size = 8MB
parallel_setup_cost = 1000
parallel_tuple_cost = 0.1
parallel_leader_participation = on
max_parallel_workers_per_gather = 2
debug_parallel_query = off
force_parallel_mode = off
enable_async_append = on
enable_bitmapscan = on
enable_distinct_reordering = on
enable_gathermerge = on
enable_group_by_reordering = on
enable_hashagg = on
enable_hashjoin = on
enable_incremental_sort = on
enable_indexonlyscan = on
enable_indexscan = on
enable_material = on
enable_memoize = on
enable_mergejoin = on
enable_nestloop = on
enable_parallel_append = on
enable_parallel_hash = on
enable_partition_pruning = on
enable_partitionwise_aggregate = off
enable_partitionwise_join = off
enable_presorted_aggregate = on
enable_self_join_elimination = on
enable_seqscan = on
enable_sort = on
enable_tidscan = on
`

// left are the settings that a session keeps as it finds them, under the reason why that is harmless.
const left = `
# the table is looked up along it, and the table's triggers may depend on it; only pg_catalog is put first (session.sql)
search_path
# whose rights the session has, which the role that logs in may give up for another's; no server lists them
role session_authorization
# a service sets it when its disk is full; it is noticed before anything is published
default_transaction_read_only
# the state of the present transaction, which no role or database carries
transaction_deferrable transaction_isolation transaction_read_only
# durability is the owner's choice; doctor warns of less than on
synchronous_commit
# the name under which the server shows the session; the URL may give one
application_name
# how much memory, storage and I/O the server's owner allows; costs time at most
backend_flush_after commit_siblings effective_io_concurrency file_copy_method hash_mem_multiplier io_combine_limit
logical_decoding_work_mem maintenance_io_concurrency maintenance_work_mem max_parallel_workers temp_buffers
temp_tablespaces
wal_skip_threshold work_mem synchronize_seqscans
# when the server gives up a client that is gone; the relay notices by itself
client_connection_check_interval tcp_keepalives_count tcp_keepalives_idle tcp_keepalives_interval tcp_user_timeout
# the server's own log only
debug_pretty_print debug_print_parse debug_print_plan debug_print_rewritten debug_print_raw_parse trace_lock_oidmin
trace_lock_table
trace_locks trace_lwlocks trace_notify trace_sort trace_syncscan trace_userlocks
# the relay makes no table, index, function or role, and does not analyse or vacuum
check_function_bodies createrole_self_grant default_statistics_target default_table_access_method default_tablespace
default_toast_compression default_text_search_config gin_pending_list_limit icu_validation_level local_preload_libraries
max_parallel_maintenance_workers md5_password_warnings password_encryption scram_iterations vacuum_buffer_usage_limit
vacuum_cost_delay vacuum_cost_limit vacuum_cost_page_dirty vacuum_cost_page_hit vacuum_cost_page_miss
vacuum_failsafe_age
vacuum_freeze_min_age vacuum_freeze_table_age vacuum_max_eager_freeze_failure_rate vacuum_multixact_failsafe_age
vacuum_multixact_freeze_min_age vacuum_multixact_freeze_table_age vacuum_truncate
# no statement joins as many tables as it takes
geqo geqo_effort geqo_generations geqo_pool_size geqo_seed geqo_selection_bias geqo_threshold
# nothing is compiled
jit_above_cost jit_expressions jit_inline_above_cost jit_optimize_above_cost jit_tuple_deforming jit_dump_bitcode
jit_debugging_support jit_profiling_support
# replication, and sessions of other kinds
debug_logical_replication_streaming logical_replication_mode wal_sender_timeout ssl_renegotiation_limit
# how statistics are shown, and a seed of random numbers that are not used
stats_fetch_consistency seed
# only a superuser gives them to a role, and whoever does so wants just that; errors are recognised by their codes, in
# any language
allow_in_place_tablespaces allow_system_table_mods backtrace_functions commit_delay compute_query_id deadlock_timeout
debug_discard_caches dynamic_library_path event_triggers extension_control_path extension_destdir
ignore_checksum_failure
ignore_system_indexes lc_messages lo_compat_privileges log_connections log_disconnections log_duration
log_error_verbosity
log_executor_stats log_lock_failures log_lock_waits log_min_duration_sample log_min_duration_statement
log_min_error_statement
log_min_messages log_parameter_max_length log_parser_stats log_planner_stats log_replication_commands log_statement
log_statement_sample_rate log_statement_stats log_temp_files log_transaction_sample_rate max_stack_depth post_auth_delay
session_preload_libraries session_replication_role temp_file_limit track_activities track_cost_delay_timing track_counts
track_functions track_io_timing
track_wal_io_timing update_process_title wal_compression wal_consistency_checking wal_init_zero wal_recycle
zero_damaged_pages
`

// A setting of a session with its value.
type setting struct{ name, value string }

// settings returns the settings that the relay gives to its sessions.
func settings() (all []setting) {
	for line := range lines(owned) {
		name, value, _ := strings.Cut(line, "=")
		all = append(all, setting{strings.TrimSpace(name), strings.TrimSpace(value)})
	}
	return all
}

// Decided reports whether it was decided what the relay does about a setting of a session. PostgreSQL does not
// distinguish the case of names. Settings of extensions, which contain a dot, concern only what the extension does in
// the table's triggers.
func Decided(name string) bool {
	same := func(other string) bool { return strings.EqualFold(name, other) }
	if strings.Contains(name, ".") || slices.ContainsFunc(settings(), func(s setting) bool { return same(s.name) }) {
		return true
	}
	for line := range lines(left) {
		if slices.ContainsFunc(strings.Fields(line), same) {
			return true
		}
	}
	return false
}

// lines returns the lines of a list, without comments.
func lines(list string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.Lines(list) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && !yield(line) {
				return
			}
		}
	}
}
