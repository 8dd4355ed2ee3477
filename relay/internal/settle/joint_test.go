package settle

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/outbox-relay/outbox-relay/relay/internal/engine"
)

// Marks for two destinations at once that take long are followed by a period in which each is marked by itself, so that
// a slow trigger on the column of one does not slow down the other.
func TestSlowJointMarksAreFollowedByOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		both := &slowTable{each: longJoin}
		join := func([]Table) Table { return both }
		tables := []Table{&slowTable{each: 100 * time.Millisecond}, &slowTable{each: 100 * time.Millisecond}}
		s := New(100, tables, join, func(int, error) {})
		results := make(chan engine.Outcome, 20)
		one, other := s.NewWriter(0, destination(t), results), s.NewWriter(1, destination(t), results)
		s.Start(t.Context())
		for _, c := range []struct {
			id     string
			joint  int // statements for both, so far
			before time.Duration
		}{{"a", 1, 0}, {"b", 1, time.Second}, {"c", 2, apartShare * longJoin}} {
			time.Sleep(c.before)
			one.Write(engine.Outcome{Rows: rowsNamed("before " + c.id)}) // the others gather behind it
			one.Write(engine.Outcome{Rows: rowsNamed(c.id)})
			other.Write(engine.Outcome{Rows: rowsNamed(c.id)})
			s.Close()
			if joint := len(both.sizes); joint != c.joint {
				t.Errorf("row %s: %d marks for both, want %d", c.id, joint, c.joint)
			}
		}
	})
}
