package kept

import (
	"testing"
	"testing/synctest"
	"time"
)

// An answer is one that a test decides.
type answer struct {
	state    State
	released int
}

func (a *answer) State(time.Time) State { return a.state }
func (a *answer) Release()              { a.released++ }

func TestTable(t *testing.T) {
	id, payload := ID{"ex", "topic", "1"}, []byte("payload")
	for name, test := range map[string]struct {
		state   State
		payload string
		want    State
		again   State // what the next call finds
	}{
		"still waited for":              {Waits, "payload", Waits, Waits},
		"answered":                      {Answered, "payload", Answered, None},
		"lost":                          {Lost, "payload", Lost, None},
		"corrected while waited for":    {Waits, "corrected", None, None},
		"corrected after it was stored": {Answered, "corrected", None, None},
	} {
		t.Run(name, func(t *testing.T) {
			var table Table[*answer]
			a := &answer{state: test.state}
			table.Keep(id, payload, a)
			if _, state := table.Find(ID{"ex", "other", "1"}, payload); state != None {
				t.Errorf("a message to another topic is %v", state)
			}
			if found, state := table.Find(id, []byte(test.payload)); state != test.want || state != None && found != a {
				t.Errorf("found %v %v, want %v", found, state, test.want)
			}
			if _, state := table.Find(id, []byte(test.payload)); state != test.again {
				t.Errorf("found %v again, want %v", state, test.again)
			}
			if want := map[bool]int{true: 0, false: 1}[test.again == Waits]; a.released != want {
				t.Errorf("released %d times, want %d", a.released, want)
			}
		})
	}
}

// An answer that no call asks for is not waited for beyond its time. It is known for a while that the message was sent.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var table Table[*answer]
		a := &answer{state: Waits}
		table.Keep(ID{ID: "1"}, nil, a)
		table.Keep(ID{ID: "2"}, nil, a)
		for _, step := range []struct {
			state    State
			after    time.Duration
			released int
		}{{Waits, time.Second, 0}, {Lost, time.Second, 2}, {Lost, forgottenAfter, 2}} {
			a.state = step.state
			time.Sleep(step.after)
			if table.Sweep(); a.released != step.released {
				t.Errorf("released %d times, want %d", a.released, step.released)
			}
		}
		if _, state := table.Find(ID{ID: "1"}, nil); state != Lost {
			t.Errorf("the message is %v, want that it was sent", state)
		}
		time.Sleep(forgottenAfter)
		if table.Sweep(); len(table.all) != 0 {
			t.Errorf("%d messages are never forgotten", len(table.all))
		}
	})
}
