package pgtest

import (
	"fmt"
	"strings"
	"testing"
)

// hostile are settings that roles and databases carry for other programs, each with a value that changes how values are
// written, what statements mean, how they are planned or how long they may take.
const hostile = `
client_encoding LATIN1
DateStyle German
IntervalStyle sql_standard
TimeZone Asia/Kathmandu
bytea_output escape
extra_float_digits -10
lc_monetary de_DE.UTF-8
lc_numeric de_DE.UTF-8
lc_time de_DE.UTF-8
xmlbinary hex
xmloption document
quote_all_identifiers on
standard_conforming_strings off
backslash_quote off
escape_string_warning on
array_nulls off
transform_null_equals on
gin_fuzzy_search_limit 1
row_security off
default_transaction_isolation serializable
default_transaction_deferrable on
statement_timeout 2s
lock_timeout 1ms
idle_in_transaction_session_timeout 150ms
idle_session_timeout 300ms
transaction_timeout 3s
exit_on_error on
client_min_messages debug5
log_parameter_max_length_on_error -1
jit on
jit_above_cost 1000
jit_inline_above_cost 1000
plan_cache_mode force_generic_plan
constraint_exclusion off
cursor_tuple_fraction 1
from_collapse_limit 1
join_collapse_limit 1
recursive_worktable_factor 1000
cpu_index_tuple_cost 1000
cpu_operator_cost 1000
cpu_tuple_cost 0
random_page_cost 100000
seq_page_cost 0
effective_cache_size 8kB
min_parallel_index_scan_size 0
min_parallel_table_scan_size 0
parallel_setup_cost 0
parallel_tuple_cost 0
parallel_leader_participation off
max_parallel_workers_per_gather 1
debug_parallel_query regress
force_parallel_mode regress
enable_bitmapscan off
enable_hashagg off
enable_hashjoin off
enable_incremental_sort off
enable_indexonlyscan off
enable_indexscan off
enable_material off
enable_memoize off
enable_mergejoin off
enable_nestloop off
enable_partition_pruning off
enable_sort off
enable_tidscan off
geqo_threshold 2
work_mem 64kB
temp_buffers 800kB
hash_mem_multiplier 1
synchronous_commit local
default_table_access_method heap
default_toast_compression pglz
stats_fetch_consistency none
check_function_bodies off
debug_print_parse off
trace_notify on
tcp_keepalives_idle 1
client_connection_check_interval 100ms
`

// NewHostileRole creates a role whose settings are all hostile to a program that trusts its session. It may do with the
// schema whatever its owner may.
func (s *Schema) NewHostileRole(t testing.TB) (name string) {
	t.Helper()
	name = s.NewRole(t)
	s.Exec(t, fmt.Sprintf("grant all on schema %[1]s to %[2]s; grant all on all tables in schema %[1]s to %[2]s; "+
		"grant all on all sequences in schema %[1]s to %[2]s; "+
		"alter default privileges in schema %[1]s grant all on tables to %[2]s; "+
		"alter default privileges in schema %[1]s grant all on sequences to %[2]s", s.Name, name))
	s.makeHostile(t, "role "+name)
	return name
}

// HostileURL is the schema's address for a new hostile role.
func (s *Schema) HostileURL(t testing.TB) string {
	t.Helper()
	return s.URLAs(t, s.NewHostileRole(t))
}

// NewHostileDatabase is [NewDatabase] whose settings are all hostile.
func NewHostileDatabase(t testing.TB) *Schema {
	t.Helper()
	s := NewDatabase(t)
	s.makeHostile(t, "database "+Value[string](t, s, "select current_database()::text"))
	return s
}

// makeHostile gives a role or database the hostile settings, as far as the server knows them.
func (s *Schema) makeHostile(t testing.TB, what string) {
	t.Helper()
	for line := range strings.Lines(strings.TrimSpace(hostile)) {
		setting, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(setting, "lc_") &&
			!Value[bool](t, s, "select exists (select from pg_collation where collcollate = $1)", value) {
			value = "C.UTF-8" // a system without other locales
		}
		if Value[bool](t, s, "select current_setting($1, true) is not null", setting) {
			s.Exec(t, fmt.Sprintf("alter %s set %s = '%s'", what, setting, value))
		}
	}
}
