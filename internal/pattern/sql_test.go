package pattern

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
)

// PostgreSQL takes the same topics as Go, whatever characters patterns and topics contain, both with backslashes as
// ordinary characters in string constants and without.
func TestSQLTakesWhatGoTakes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ab.", 100_000)
	topics := []string{
		"", " ", "a", "A", "a ", " a", "b", "ab", "abc", "a.b", "a/b", "a.b.c", "a\nb", "a\tb", "!", "!a", "*", "%", "_", `\`,
		`\\`, "'", "''", `"`, `\'`,
		`a%b`, `a_b`, `a\b`, `a\%b`, `a\_b`, "a'b", `a"b`, "a*b", "a|b", "{a}", "$1", "-- a", "order.created",
		"order.internal.x", "audit.x",
		"é", "e\u0301", "ß", "SS", "İ", "ı", "日本語", "日本", "😀", "a😀b", "\u00a0", "\ufeff", "\x01", long, long + "z",
		"z" + long,
	}
	sets := [][]string{
		nil,
		{""},
		{"*"},
		{"**"},
		{"!"},
		{"!*"},
		{"!a"},
		{"!!a"},
		{"*", "!*"},
		{"a"},
		{"a", "a"},
		{"b", "a"},
		{"a*"},
		{"*a"},
		{"*a*"},
		{"a*b"},
		{"a**b"},
		{"*a*b*c*"},
		{"%"},
		{"_"},
		{`\`},
		{`\*`},
		{`*\`},
		{`a\*`},
		{`*\%*`},
		{"a%b"},
		{"a_b"},
		{"a_*"},
		{`a\b`},
		{`a\%b`},
		{`\\`},
		{"'"},
		{"*'*"},
		{`\'`},
		{`*\'*`},
		{`"`},
		{"a'b", `a"b`},
		{"order.*", "!order.internal.*"},
		{"!order.internal.*", "order.*"},
		{"!audit.*"},
		{"!audit.*", "!a"},
		{"!a*", "*b"},
		{"{*}"},
		{"$1"},
		{"--*"},
		{"?", "[a]", "a|b"},
		{"é"},
		{"é*"},
		{"ss"},
		{"i*"},
		{"日*"},
		{"*本語"},
		{"😀"},
		{"*😀*"},
		{"\x01"},
		{long},
		{long + "*"},
		{"*z"},
		{"z*.", "!*b."},
		{strings.Repeat("*b", 500)},
		{"a\x00"},
		{"\xff*"},
		{"!a\x00"},
		{"!\xff*"},
		{"a\x00", "a"},
	}
	random := rand.New(rand.NewPCG(1, 2))
	text := func(alphabet string) string {
		var b strings.Builder
		for range random.IntN(7) {
			b.WriteByte(alphabet[random.IntN(len(alphabet))])
		}
		return b.String()
	}
	for range 300 {
		topics = append(topics, text(`aab.%_\'*!`))
		var set []string
		for range random.IntN(4) {
			set = append(set, strings.Repeat("!", random.IntN(8)/6)+text(`aab.%_\'**`))
		}
		sets = append(sets, set)
	}
	for _, conforming := range []string{"on", "off"} {
		pool := pgtest.New(t).PoolWith(t, func(c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["standard_conforming_strings"] = conforming
		})
		if _, err := pool.Exec(t.Context(), "create table topics (n integer, topic text)"); err != nil {
			t.Fatal(err)
		}
		if _, err := pool.Exec(t.Context(),
			"insert into topics select n, topic from unnest($1::text[]) with ordinality t (topic, n) union all select 0, null",
			topics); err != nil {
			t.Fatal(err)
		}
		for _, set := range sets {
			condition := SQL(Text("topic"), set)
			rows, _ := pool.Query(t.Context(), "select n from topics where "+condition+" order by n", pgx.QueryExecModeExec)
			got, err := pgx.CollectRows(rows, pgx.RowTo[int])
			if err != nil {
				t.Fatalf("%.200q: %.1000s: %v", set, condition, err)
			}
			for n, topic := range append([]string{""}, topics...) { // the first is NULL
				if want := Takes(set, topic); slices.Contains(got, n) != want {
					t.Errorf("%.200q takes topic %d, %.200q: %v in Go only or in SQL only: %.1000s", set, n, topic, want, condition)
				}
			}
		}
	}
}

// A condition can be part of others as it is. The same patterns give the same condition, so that an index with it still
// fits.
func TestSQLText(t *testing.T) {
	t.Parallel()
	const x = "x"
	for _, c := range []struct {
		patterns, want string
	}{
		{"", "true"},
		{"*", "true"},
		{"a,*,b", "true"},
		{"!*", "false"},
		{"a,!**", "false"},
		{"a", "x in ('a')"},
		{"b,a,b", "x in ('a', 'b')"},
		{"a*", "x like 'a%'"},
		{"a_b%*", `x like E'a\\_b\\%%'`},
		{"!b*,c,!a,b,a*", "(x in ('b', 'c') or x like 'a%') and not ((x in ('a') or x like 'b%'))"},
		{"!a", "not (x in ('a'))"},
		{"it's", "x in ('it''s')"},
	} {
		var patterns []string
		if c.patterns != "" {
			patterns = strings.Split(c.patterns, ",")
		}
		for range 2 {
			if got := SQL(x, patterns); got != c.want {
				t.Errorf("%q is %s, want %s", patterns, got, c.want)
			}
			slices.Reverse(patterns)
		}
	}
}

// FuzzSQL compares PostgreSQL with Go.
func FuzzSQL(f *testing.F) {
	for _, seed := range [][3]string{
		{"a*b", "", "ab"},
		{"*", "a*", "a"},
		{`a\*`, `a\b`, `a\b`},
		{"%", "_", "x"},
		{"'", `\'`, "'"},
		{"é*", "!", "é"},
		{"", "", ""},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	s := pgtest.New(f)
	f.Fuzz(func(t *testing.T, taken, excluded, topic string) {
		topic = strings.ReplaceAll(strings.ToValidUTF8(topic, ""), "\x00", "")
		patterns := []string{taken, "!" + excluded}
		condition := SQL(Text("topic"), patterns)
		var got bool
		if err := s.Pool.QueryRow(t.Context(), "select "+condition+" from (select $1::text as topic) t",
			pgx.QueryExecModeExec,
			topic).Scan(&got); err != nil {
			t.Fatalf("%s: %v", condition, err)
		}
		if want := Takes(patterns, topic); got != want {
			t.Errorf("%q takes %q: %v in Go, %v in SQL: %s", patterns, topic, want, got, condition)
		}
	})
}
