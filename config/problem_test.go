package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// problemsOf returns the problems of the minimal environment with changes.
func problemsOf(t *testing.T, more ...string) []string {
	t.Helper()
	_, err := parse(append(append([]string{}, minimal...), more...), true)
	problems, ok := errors.AsType[*Error](err)
	if !ok {
		if err != nil {
			t.Fatalf("error of type %T", err)
		}
		return nil
	}
	return problems.Problems
}

// Each environment in testdata/problems.txt has one problem, whose text contains no secret.
func TestBadInput(t *testing.T) {
	t.Parallel()
	const path, indent = "testdata/problems.txt", "  "
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"$MISSING", "$EMPTY", "$MANY", `\n`}
	values := []string{filepath.Join(t.TempDir(), "missing"), file(t, "\n"), file(t, "many"), "\n"}
	var report, environment string
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, indent) {
			continue
		}
		report += line
		if !strings.HasPrefix(line, Prefix) {
			continue
		}
		environment = strings.TrimSuffix(line, "\n")
		for i, name := range names {
			environment = strings.ReplaceAll(environment, name, values[i])
		}
		problems := problemsOf(t, strings.Split(strings.ReplaceAll(environment, " "+Prefix, "\x00"+Prefix), "\x00")...)
		if len(problems) != 1 || strings.Contains(problems[0], "hush") {
			t.Errorf("%s\ngot %q", environment, problems)
			continue
		}
		problem := problems[0]
		for i, name := range names {
			problem = strings.ReplaceAll(problem, values[i], name)
		}
		report += indent + problem + "\n"
	}
	if report != string(text) && !*update {
		t.Errorf("other problems than in %s:\n%s", path, firstDifference(report, string(text)))
	}
	if *update {
		if err := os.WriteFile(path, []byte(report), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// firstDifference returns the first lines that differ.
func firstDifference(got, want string) string {
	gots, wants := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(gots), len(wants)) {
		if gots[i] != wants[i] {
			return "got  " + gots[i] + "\nwant " + wants[i]
		}
	}
	return fmt.Sprintf("got %d lines, want %d", len(gots), len(wants))
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := parse([]string{"OUTBOX_BATCH_SIZE=x", "OUTBOX_SHARDS=0", "OUTBOX_TABEL=t", "OUTBOX_TOPIC={"}, true)
	const required = "is required; " + databaseForms + ", or set OUTBOX_DATABASE_URL_FILE to the path of a file"
	want := `configuration: 6 problems
  OUTBOX_BATCH_SIZE="x" is not a whole number; write digits only, such as 1000
  OUTBOX_SHARDS="0" must be at least 1
  OUTBOX_DATABASE_URL ` + required + `
  OUTBOX_PUBLISH_URL is required; ` + brokerForms + `
  OUTBOX_TOPIC="{" has a brace alone; write {topic}, {COLUMN}, {header.NAME} or {payload.a.b}, or {{ and }} for braces
  OUTBOX_TABEL is an unknown variable; see outbox-relay help settings, where * marks what may be set for one of the ` +
		`destinations that OUTBOX_DESTINATIONS lists`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// A limit that cannot be used does not hide that a destination gets no rows.
func TestProblemsOfLimitsAndTopics(t *testing.T) {
	t.Parallel()
	got := strings.Join(problemsOf(t, "OUTBOX_DESTINATIONS=a,b", "OUTBOX_DESTINATION_A_BACKOFF_MIN=2m"), "\n")
	if !strings.Contains(got, "A_BACKOFF_MIN") || !strings.Contains(got, "B_TOPICS") {
		t.Errorf("got %q", got)
	}
}

// A mistake in a setting that several destinations inherit is one problem.
func TestInheritedProblemOnce(t *testing.T) {
	t.Parallel()
	got := problemsOf(t, "OUTBOX_DESTINATIONS=a,b", "OUTBOX_DESTINATION_A_TOPICS=a", "OUTBOX_MAX_ATTEMPTS=none")
	if len(got) != 1 {
		t.Errorf("got %q", got)
	}
}

// What a login lacks is reported beside a URL that cannot be read.
func TestLoginBesideABrokenURL(t *testing.T) {
	t.Parallel()
	got := problemsOf(t, "OUTBOX_PUBLISH_URL=kafka://", "OUTBOX_KAFKA_SASL_MECHANISM=PLAIN",
		"OUTBOX_KAFKA_SASL_USERNAME=u")
	if len(got) != 2 {
		t.Errorf("got %q", got)
	}
}

// A client's secret alone lacks the client and where its tokens come from.
func TestClientSecretAlone(t *testing.T) {
	t.Parallel()
	got := problemsOf(t, "OUTBOX_PUBLISH_URL=amqp://h", "OUTBOX_AMQP_OAUTH_CLIENT_SECRET=hush")
	if len(got) != 2 || !strings.Contains(got[0], "_CLIENT_ID;") || !strings.Contains(got[1], "_TOKEN_URL;") {
		t.Errorf("got %q", got)
	}
}
