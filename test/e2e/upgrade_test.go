//go:build upgrade

// These tests build earlier versions from the history of the repository, which a clone may lack: make upgrade runs
// them. What replicas of other versions read from this one's locks is pinned by internal/owner/versions_test.go, which
// runs with all others.

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/outbox-relay/outbox-relay/internal/pgtest"
	"github.com/outbox-relay/outbox-relay/test/testkit"
)

// TestUpgrade replaces both replicas of each earlier version by replicas of this version while rows are written, and
// puts the old ones back. Nothing is lost, no row is delivered twice, and each key keeps its order. Then a replica is
// killed while both versions run.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("testdata/builds.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		var commit, kind string
		if _, err := fmt.Sscan(line, &commit, &kind); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		t.Run(commit[:7], func(t *testing.T) {
			t.Parallel()
			all := brokers(t)
			b := all[slices.IndexFunc(all, func(b broker) bool { return b.name() == kind })]
			u := newUpgrade(t, b, commit)
			u.forward()
			u.mend()
			u.back()
			u.write.end()
			u.outbox.awaitDrained()
			check(t, u.outbox, b.received(t, u.topic))
			u.crash()
			checkBounded(t, u.outbox, b.received(t, u.topic), 2)
			u.outbox.checkUnspent(isRelayed)
		})
	}
}

// upgrade is an outbox whose relays change from one version to another, and back.
type upgrade struct {
	t      *testing.T
	old    string // the binary of the earlier version
	outbox *table
	env    settings
	topic  string
	write  *writer
	olds   []*relay
	news   []*relay
}

func newUpgrade(t *testing.T, b broker, commit string) *upgrade {
	t.Helper()
	built := exec.Command("../../dev/build.sh", commit)
	var problems strings.Builder
	built.Stderr = &problems
	path, err := built.Output()
	if err != nil {
		t.Fatalf("build %s: %v\n%s", commit, err, problems.String())
	}
	u := &upgrade{t: t, old: strings.TrimSpace(string(path)), topic: b.topic(t)}
	ddl, err := testkit.Command(u.t.Context(), u.old, nil, "schema").Output()
	if err != nil {
		t.Fatalf("schema of the earlier version: %v", err)
	}
	u.outbox = newShape(t, string(ddl))
	u.env = u.outbox.env(b.url())
	return u
}

// startWriter writes rows on 50 keys, from the given number on, and never many more than are relayed.
func (u *upgrade) startWriter(from int) *writer {
	return startWriter(u.t, u.outbox.Pool, from, 100, fmt.Sprintf(`insert into outbox_messages (topic, key, payload)
		select '%s', 'k' || i %% 50, jsonb_build_object('n', i) from generate_series($1::int, $2::int) i
		where (select count(*) from outbox_messages where relayed_at is null) < 2000 order by i`, u.topic))
}

// forward replaces the old replicas, one after the other.
func (u *upgrade) forward() {
	u.t.Helper()
	u.olds = u.start(u.old, 2)
	u.write = u.startWriter(0)
	u.bad("from before")
	u.flow()

	u.news = u.start(binary, 1)
	u.besides(u.olds, u.news[0])
	u.flow()
	u.olds[0].stop()
	u.news = append(u.news, u.start(binary, 1)...)
	u.flow()
	u.olds[1].stop()
	u.t.Logf("the new replicas owned everything after %v", u.awaitAll(u.news))
	u.flow()
	if code, out, problems := runCommand(u.t, append(u.env, "OUTBOX_HTTP_ADDR="+u.news[0].Address), "doctor"); code != 0 {
		u.t.Errorf("doctor: status %d:\n%s%s", code, out, problems)
	}
}

// mend lets the new version handle the rows that the old one has left, and gives the table a column that the old
// version does not support.
func (u *upgrade) mend() {
	u.t.Helper()
	id := pgtest.Value[string](u.t, u.outbox.Schema, "select id::text from outbox_messages where "+isFailed)
	u.outbox.Exec(u.t, "update outbox_messages set headers = '{}' where "+isFailed)
	if code, out, problems := runCommand(u.t, u.env, "failed", "retry", id); code != 0 {
		u.t.Fatalf("failed retry: status %d:\n%s%s", code, out, problems)
	}
	await(u.t, "the failed row is relayed", func() bool { return u.outbox.count("id = $1::uuid and "+isRelayed, id) == 1 })
	u.outbox.Exec(u.t, "alter table outbox_messages add column if not exists txid xid8")
	u.outbox.Exec(u.t, "alter table outbox_messages alter column txid set default pg_current_xact_id()")
	u.bad("from between")
	u.flow()
}

// back replaces the new replicas by the old version.
func (u *upgrade) back() {
	u.t.Helper()
	u.olds = u.start(u.old, 1)
	u.besides(u.news, u.olds[0])
	u.news[0].stop()
	u.olds = append(u.olds, u.start(u.old, 1)...)
	u.flow()
	u.news[1].stop()
	u.t.Logf("the old replicas owned everything after %v", u.awaitAll(u.olds))
	u.flow()
	if failed := u.outbox.count(isFailed); failed != 1 {
		u.t.Errorf("%d rows have failed, not the one that failed before", failed)
	}
}

// crash kills the old replicas, one after the other, while a new one runs.
func (u *upgrade) crash() {
	u.t.Helper()
	u.news = u.start(binary, 1)
	u.besides(u.olds, u.news[0])
	u.write = u.startWriter(u.write.rows)
	for _, r := range u.olds {
		u.flow()
		r.Kill()
	}
	u.t.Logf("the new replica owned everything after %v", u.awaitAll(u.news))
	u.flow()
	u.write.end()
	u.outbox.awaitDrained()
}

// start starts replicas of one of the versions.
func (u *upgrade) start(program string, n int) []*relay {
	u.t.Helper()
	var all []*relay
	for range n {
		all = append(all, startBuild(u.t, program, u.env))
	}
	for _, r := range all {
		r.awaitReady()
	}
	return all
}

// besides waits until a new replica has its share beside replicas of the other version.
func (u *upgrade) besides(there []*relay, come *relay) {
	u.t.Helper()
	await(u.t, "all have a share", func() bool {
		return owned(come) > 0 && !slices.ContainsFunc(there, func(r *relay) bool { return owned(r) == 0 }) &&
			owned(append(there, come)...) == 16
	})
}

// awaitAll waits until some replicas own all shards.
func (u *upgrade) awaitAll(replicas []*relay) time.Duration {
	u.t.Helper()
	return await(u.t, "they own everything", func() bool { return owned(replicas...) == 16 }).Round(time.Millisecond)
}

// bad writes a row that no broker accepts, and waits until it has failed.
func (u *upgrade) bad(name string) {
	u.t.Helper()
	before := u.outbox.count(isFailed)
	u.outbox.Exec(u.t, `insert into outbox_messages (topic, key, payload, headers) values ($1, 'bad', '{"n": 0}',
		'{"message-id": "mine"}')`,
		u.topic)
	await(u.t, "the bad row "+name+" fails", func() bool { return u.outbox.count(isFailed) == before+1 })
}

// flow waits until many more rows have been relayed.
func (u *upgrade) flow() {
	u.t.Helper()
	u.outbox.awaitRelayed(u.outbox.count(isRelayed) + 1000)
}

// owned adds up the shards of some replicas.
func owned(replicas ...*relay) int {
	sum := 0
	for _, r := range replicas {
		n, _ := strconv.Atoi(r.metric("shards_owned")) // one that does not answer owns none
		sum += n
	}
	return sum
}
